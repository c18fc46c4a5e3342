# panpipe_hide_path(TARGET PATH NAME): what is compiled with TARGET holds NAME where the compiler would write PATH/ (__FILE__ in checks,
# ours and LibTorch's). So no path of the machine that built a release is in it, and its bytes do not depend on the folder.
#
# ccache with a base_dir above PATH hands relative paths to the compiler already; the option would only make its caches cold.
set(panpipe_relative_below "")
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} --get-config base_dir OUTPUT_VARIABLE panpipe_relative_below
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
function(panpipe_hide_path target path name)
  if(panpipe_relative_below)
    cmake_path(IS_PREFIX panpipe_relative_below "${path}" NORMALIZE relative)
    if(relative)
      return()
    endif()
  endif()
  target_compile_options(${target} INTERFACE "$<$<CONFIG:Release>:-ffile-prefix-map=${path}/=${name}>")
endfunction()

# panpipe_hide_sources(TARGET): the same for the sources of one target, whatever ccache does. Joined files include whole paths, which
# ccache leaves as they are; so does a ccache that asks the compiler what a file includes (CCACHE_DEPEND).
function(panpipe_hide_sources target)
  target_compile_options(${target} PRIVATE "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
endfunction()

panpipe_hide_path(panpipe_flags ${CMAKE_SOURCE_DIR} "")
