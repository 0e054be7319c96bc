# Finds every third-party library of the C++ part, or says which Debian package brings it.
# docs/dependencies.md lists them with reasons.

function(tfos_require found what package)
  if(NOT ${found})
    message(FATAL_ERROR "${what} was not found. On Debian or Ubuntu: apt-get install ${package}")
  endif()
endfunction()

find_package(Threads REQUIRED)
# Static: an executor need not have it, and TensorFlow brings functions of the same names to a
# process that do something else.
set(OPENSSL_USE_STATIC_LIBS ON)
find_package(OpenSSL 3.0 QUIET)
tfos_require(OpenSSL_FOUND "OpenSSL 3 (static)" libssl-dev)
find_package(nlohmann_json 3.11 QUIET)
tfos_require(nlohmann_json_FOUND "nlohmann-json" nlohmann-json3-dev)
find_package(fmt QUIET)
tfos_require(fmt_FOUND "fmt" libfmt-dev)
find_package(spdlog QUIET)
tfos_require(spdlog_FOUND "spdlog" libspdlog-dev)
find_package(CLI11 QUIET)
tfos_require(CLI11_FOUND "CLI11" libcli11-dev)
# Static: an executor need not have it.
set(ZLIB_USE_STATIC_LIBS ON)
find_package(ZLIB QUIET)
tfos_require(ZLIB_FOUND "zlib (static)" zlib1g-dev)
# Java's headers alone; its library is looked for where the program runs.
file(GLOB java_include_dirs LIST_DIRECTORIES true /usr/lib/jvm/*/include)
find_path(TFOS_JNI_INCLUDE_DIR jni.h HINTS "$ENV{JAVA_HOME}/include" ${java_include_dirs}
  DOC "Directory of jni.h")
tfos_require(TFOS_JNI_INCLUDE_DIR "jni.h (of a JDK, or set JAVA_HOME)" openjdk-17-jdk-headless)
find_package(Boost 1.81 QUIET)
tfos_require(Boost_FOUND "Boost 1.81 (headers)" libboost1.81-dev)

# The Python that the wheel is made with; else the one of .venv, if there is one.
if(NOT DEFINED Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
find_package(Python 3.11 QUIET COMPONENTS Interpreter)

# UCX is optional. Building takes its headers, tests and benchmarks its library; programs look for a
# library where they run. Both are in the Python package libucx-cu12.
if(Python_Interpreter_FOUND)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "import importlib.util as u; s = u.find_spec('libucx'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE ucx_package)
endif()
find_path(TFOS_UCX_INCLUDE_DIR ucp/api/ucp.h HINTS "${ucx_package}/include"
  DOC "Directory of ucp/api/ucp.h; without it rdma=True finds no UCX")
set(TFOS_PACKAGED_UCX "")
if(ucx_package)
  set(TFOS_PACKAGED_UCX "${ucx_package}/lib/libucp.so.0")
endif()

if(TFOS_BUILD_TESTS)
  find_package(GTest QUIET)
  tfos_require(GTest_FOUND "GoogleTest" "libgtest-dev libgmock-dev")
  enable_testing()
  include(GoogleTest)
endif()
