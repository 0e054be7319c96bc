# Helpers that give every target the same warnings, sanitizers and include roots.

add_library(tfos_flags INTERFACE)
target_include_directories(tfos_flags INTERFACE
  "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
target_compile_options(tfos_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
  # What a mutex guards (base/thread/mutex.h) must be respected: Clang refuses a breach in any build.
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety> $<$<CXX_COMPILER_ID:Clang>:-Werror=thread-safety>
  $<$<BOOL:${TFOS_WERROR}>:-Werror>)
# What GCC says only once it has inlined at -O3 is too often wrong: GCC 12 takes members that a
# designated initialiser has set for uninitialised, and texts that are put together for copies that
# overlap. Clang and the sanitizers look instead.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(tfos_flags INTERFACE -Wno-maybe-uninitialized -Wno-error=array-bounds
    -Wno-restrict -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=free-nonheap-object)
endif()
if(TFOS_SANITIZE)
  # For tests that replace operator new: sanitizers have one, too, and a program has one.
  target_compile_definitions(tfos_flags INTERFACE TFOS_SANITIZED)
  target_compile_options(tfos_flags INTERFACE -fsanitize=${TFOS_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tfos_flags INTERFACE -fsanitize=${TFOS_SANITIZE})
else()
  # An executor has libc and the libgcc_s that libc itself loads, and need not have our C++ runtime.
  # libgcc must not be static: pthread_exit unwinds through our frames with libgcc_s, and a second
  # copy of the unwinder aborts on its state.
  target_link_options(tfos_flags INTERFACE -static-libstdc++)
endif()
# An index beyond the end of a span, a vector or a text ends the process, in every build: what
# others send is parsed with these.
target_compile_definitions(tfos_flags INTERFACE _GLIBCXX_ASSERTIONS)
# What distributions build their packages with; tools/checks/hardening.py looks for the traces. No
# -fcf-protection: the processor heeds it only in programs whose every part has it, and the C++
# runtime of Debian has not. _FORTIFY_SOURCE hides calls from sanitizers, which look closer, and
# does nothing without optimization.
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)
if(NOT TFOS_SANITIZE)
  target_compile_options(tfos_flags INTERFACE -fstack-protector-strong -fstack-clash-protection
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>
    $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},aarch64>:-mbranch-protection=standard>)
  target_link_options(tfos_flags INTERFACE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()

# tfos_library(name SOURCES ... LINKS ...): one static library for one folder of src/.
function(tfos_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC tfos_flags ${ARG_LINKS})
endfunction()

# tfos_test([FOLDER/]x_test LINKS ...): builds x_test from x_test.cc and registers its cases with
# ctest. Their label is the folder with its CMakeLists.txt, such as src/feed/wire;
# tools/checks/sanitizer_parts.py chooses by it.
function(tfos_test source)
  get_filename_component(name "${source}" NAME)
  if(NOT TFOS_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "LINKS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  # ThreadSanitizer makes a program five to fifteen times slower.
  if(TFOS_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${source}.cc)
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  # What is tested has the optimization of the product. That of the tests themselves would take a
  # fifth of their build.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>
    # Wrong where a test has an operator new of its own.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${folder}")
endfunction()
