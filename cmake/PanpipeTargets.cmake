# panpipe_library, panpipe_test: every target gets the project's warnings, sanitizers and include root from here.
add_library(panpipe_flags INTERFACE)
target_include_directories(panpipe_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(panpipe_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wpedantic)
if(PANPIPE_SANITIZE)
  target_compile_options(panpipe_flags INTERFACE -fsanitize=${PANPIPE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(panpipe_flags INTERFACE -fsanitize=${PANPIPE_SANITIZE})
  if(PANPIPE_SANITIZE MATCHES "undefined")
    target_compile_options(panpipe_flags INTERFACE -fno-sanitize-recover=all)
  endif()
  if(PANPIPE_SANITIZE MATCHES "thread")
    target_compile_options(panpipe_flags INTERFACE -Wno-error=tsan)
  endif()
endif()

# panpipe_join(TARGET): a release compiles the files of a target several at a time, in the order in which they are listed. Most of
# what a file costs is what it includes. A name in an anonymous namespace is therefore the only one of its kind in its target; a
# file that cannot keep to that gets SKIP_UNITY_BUILD_INCLUSION. Without joined files: every preset but release and tsan.
function(panpipe_join target)
  if(PANPIPE_JOIN_FILES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE ${PANPIPE_JOIN_FILES})
    panpipe_hide_sources(${target})
  endif()
endfunction()

# panpipe_compile_lightly(TARGET): for what reads options, writes texts and draws pages. It runs for milliseconds; most of what it
# costs is its compilation, which is what a newcomer waits for. Not in a page: the linker takes one of the copies of an inline function,
# which may be the slow one.
function(panpipe_compile_lightly target)
  if(NOT PANPIPE_WEB)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# panpipe_library(NAME SOURCES a.cpp ... [PUBLIC lib ...] [PRIVATE lib ...]) makes panpipe_NAME and panpipe::NAME.
function(panpipe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(panpipe_${name} STATIC ${ARG_SOURCES})
  add_library(panpipe::${name} ALIAS panpipe_${name})
  set_target_properties(panpipe_${name} PROPERTIES EXPORT_NAME ${name})
  # Warnings and sanitizers are ours: programs that link an installed library choose their own.
  target_link_libraries(panpipe_${name} PUBLIC $<BUILD_INTERFACE:panpipe_flags> ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  panpipe_join(panpipe_${name})
endfunction()

# panpipe_test_parts(NAME SOURCES a.cpp ... LIBRARIES lib ...) compiles once what several test programs share.
function(panpipe_test_parts name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC panpipe_flags ${ARG_LIBRARIES} GTest::gtest)
  panpipe_compile_lightly(${name})
endfunction()

# panpipe_test(NAME SOURCES a_test.cpp ... LIBRARIES lib ... [LABELS gpu]) makes one GoogleTest program of a folder and registers each
# of its tests with ctest; those of suites named Gpu/... carry the label gpu. Tests run in the source folder tests/ and find the built programs in $PANPIPE_BIN.
function(panpipe_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE panpipe_flags ${ARG_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  panpipe_compile_lightly(test_${name})
  include(GoogleTest)
  set(labels)
  if(ARG_LABELS)
    set(labels LABELS "${ARG_LABELS}")
  endif()
  gtest_discover_tests(test_${name} TEST_FILTER "-Gpu/*"
    TEST_PREFIX "${name}/" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120  # a busy machine takes longer than CMake expects
    PROPERTIES ${labels} ENVIRONMENT "PANPIPE_BIN=${CMAKE_BINARY_DIR}/bin" TIMEOUT 300)
  gtest_discover_tests(test_${name} TEST_FILTER "Gpu/*"
    TEST_PREFIX "${name}/" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120  # a busy machine takes longer than CMake expects
    PROPERTIES LABELS gpu ENVIRONMENT "PANPIPE_BIN=${CMAKE_BINARY_DIR}/bin" TIMEOUT 300)
endfunction()
