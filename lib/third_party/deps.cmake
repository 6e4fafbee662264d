# Finds each dependency and gives it a target third_party_<name>. Which layer may use which is in lib/CMakeLists.txt.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

pkg_check_modules(libevent REQUIRED IMPORTED_TARGET libevent_core libevent_extra libevent_pthreads)
pkg_check_modules(nghttp2 REQUIRED IMPORTED_TARGET libnghttp2)
pkg_check_modules(yaml REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(systemd REQUIRED IMPORTED_TARGET libsystemd)
add_library(third_party_libevent ALIAS PkgConfig::libevent)
add_library(third_party_nghttp2 ALIAS PkgConfig::nghttp2)
add_library(third_party_yaml ALIAS PkgConfig::yaml)
add_library(third_party_systemd ALIAS PkgConfig::systemd)

# llhttp comes as C sources: Debian's node-llhttp, or -DLLHTTP_ROOT=<dir> with src/ and include/ as in its releases.
set(LLHTTP_ROOT "" CACHE PATH "llhttp release to use in place of Debian's node-llhttp")
find_path(LLHTTP_INCLUDE llhttp.h HINTS "${LLHTTP_ROOT}/include" PATHS /usr/share/include/llhttp REQUIRED)
find_path(LLHTTP_SOURCE llhttp.c HINTS "${LLHTTP_ROOT}/src" PATHS /usr/share/llhttp NO_DEFAULT_PATH REQUIRED)
add_library(third_party_llhttp STATIC "${LLHTTP_SOURCE}/llhttp.c" "${LLHTTP_SOURCE}/api.c" "${LLHTTP_SOURCE}/http.c")
target_include_directories(third_party_llhttp SYSTEM PUBLIC "${LLHTTP_INCLUDE}")
target_compile_options(third_party_llhttp PRIVATE -w ${weir_lto_compile})
target_link_libraries(third_party_llhttp PRIVATE weir_flags_base)

include(lib/third_party/boringssl.cmake)
