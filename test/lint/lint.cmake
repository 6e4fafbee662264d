# Each check of the tree is a test of its own. They need no build, but for tidy's compile_commands.json.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(check layers fences banned limits conditionals names places self_test)
  add_test(NAME lint.${check} COMMAND Python3::Interpreter -B "${CMAKE_CURRENT_SOURCE_DIR}/lint/${check}.py")
  list(APPEND lints lint.${check})
endforeach()
foreach(check format shell)
  add_test(NAME lint.${check} COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/lint/${check}")
  list(APPEND lints lint.${check})
endforeach()
# Debian's own interpreter: jsonschema and yaml are its packages.
add_test(NAME lint.reference COMMAND /usr/bin/python3 -B "${CMAKE_CURRENT_SOURCE_DIR}/lint/reference.py"
                                     "${CMAKE_BINARY_DIR}/bin/weir")
add_test(NAME lint.package COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/lint/package" "${CMAKE_BINARY_DIR}")
list(APPEND lints lint.reference lint.package)
add_test(NAME lint.tidy COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/lint/tidy" "${CMAKE_BINARY_DIR}")
set_tests_properties(${lints} PROPERTIES LABELS lint TIMEOUT 120)
set_tests_properties(lint.tidy PROPERTIES LABELS lint TIMEOUT 600 PROCESSORS 2)
