# The tools that bench/ measures with are tested too: do they count what openssl s_server counts? (Where there is one.)
find_program(OPENSSL_PROGRAM openssl)
if(OPENSSL_PROGRAM AND NOT WEIR_PRESET MATCHES "tsan|fuzz")
  add_test(NAME bench.verify COMMAND "${CMAKE_SOURCE_DIR}/bench/tools/verify" "${CMAKE_BINARY_DIR}")
  set_tests_properties(bench.verify PROPERTIES LABELS bench TIMEOUT 180 ENVIRONMENT "${sanitizer_env}"
                       FAIL_REGULAR_EXPRESSION "${sanitizer_word}")
endif()

# What weir executes for a request must not grow unnoticed; where the counts on record are of other compilers or libraries, it is skipped.
if(WEIR_PRESET STREQUAL "release")
  add_test(NAME bench.instructions COMMAND "${CMAKE_SOURCE_DIR}/bench/instructions" --build "${CMAKE_BINARY_DIR}")
  set_tests_properties(bench.instructions PROPERTIES LABELS bench TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
