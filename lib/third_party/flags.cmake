# Compiler and linker flags, in the interface target weir_flags that everything of ours links.
# Third-party C code (third_party_llhttp) takes weir_flags_base: the same code generation, no warnings.
include(CheckCCompilerFlag)
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

# The same tree built elsewhere gives the same bytes.
set(weir_reproducible "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=." "-ffile-prefix-map=${CMAKE_BINARY_DIR}=build")

add_library(weir_flags_base INTERFACE)
target_compile_options(weir_flags_base INTERFACE ${weir_optimize} ${weir_sanitize} ${weir_reproducible}
                       -fPIE -fstack-protector-strong -fno-strict-aliasing)
target_compile_definitions(weir_flags_base INTERFACE _GNU_SOURCE)
# Symbols of static libraries stay inside: Criterion loads OpenSSL, which must not bind to BoringSSL.
target_link_options(weir_flags_base INTERFACE ${weir_sanitize} -pie -Wl,-z,relro,-z,now,-z,noexecstack
                    -Wl,--exclude-libs,ALL)
if(weir_hardened)
  target_compile_options(weir_flags_base INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
foreach(flag -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "have${flag}" have)
  check_c_compiler_flag(${flag} ${have})
  if(${have})
    target_compile_options(weir_flags_base INTERFACE ${flag})
  endif()
endforeach()

add_library(weir_flags INTERFACE)
target_link_libraries(weir_flags INTERFACE weir_flags_base)
target_compile_options(weir_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes
                       -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wpointer-arith -Wwrite-strings -Werror)
target_include_directories(weir_flags INTERFACE "${CMAKE_SOURCE_DIR}/lib")

# Link-time optimization is for the weir binary alone: objects carry machine code beside the LTO form, so that the
# many small test programs link in no time.
if(weir_lto AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_AR "${CMAKE_C_COMPILER_AR}")
  set(CMAKE_RANLIB "${CMAKE_C_COMPILER_RANLIB}")
  set(weir_lto_compile -flto=auto -ffat-lto-objects)
  set(weir_lto_link -flto=auto ${weir_optimize} ${weir_reproducible})
else()
  set(weir_lto_compile)
  set(weir_lto_link)
endif()
