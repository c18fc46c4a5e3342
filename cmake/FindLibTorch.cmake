# LibTorch, from a torch package that tools/find-libtorch chooses (or -DPANPIPE_LIBTORCH=<folder of the torch package>). Makes
# LibTorch::cpu, and LibTorch::cuda (for modules that are loaded at run time) where the wheel has CUDA and its headers and NCCL's
# are found: in the wheel's own nvidia packages, or in a CUDA toolkit. Host code only: no nvcc.
#
# find_package(Torch) is not used: it fails without a CUDA toolkit and drags CUDA in with one. Only libtorch_cpu and libc10
# are linked; CUDA comes at run time (exec/engine/device.hpp).
set(PANPIPE_LIBTORCH "" CACHE PATH "Folder of the torch package (empty: the active environment's, else the one in .venv)")
# Looked for again at every build: make setup may have installed it since.
file(GLOB LibTorch_in_venv CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/../.venv/lib/python3*/site-packages/torch)
set(LibTorch_tool ${CMAKE_CURRENT_LIST_DIR}/../tools/find-libtorch)
set(LibTorch_before "${LibTorch_ROOT_DIR}")
set(LibTorch_code 1)
if(LibTorch_ROOT_DIR AND "${PANPIPE_LIBTORCH}$ENV{PANPIPE_LIBTORCH}" STREQUAL "")
  # A build folder keeps what it found, whatever environment is active when CMake runs again.
  execute_process(COMMAND ${LibTorch_tool} ${LibTorch_ROOT_DIR} OUTPUT_VARIABLE LibTorch_answer RESULT_VARIABLE LibTorch_code)
endif()
if(NOT LibTorch_code EQUAL 0)
  unset(LibTorch_ORIGIN CACHE)
  execute_process(COMMAND ${LibTorch_tool} ${PANPIPE_LIBTORCH} OUTPUT_VARIABLE LibTorch_answer RESULT_VARIABLE LibTorch_code)
endif()
set(LibTorch_found "")
set(LibTorch_VERSION "")
string(REPLACE "\n" ";" LibTorch_answer "${LibTorch_answer}")
foreach(line IN LISTS LibTorch_answer)
  string(REGEX MATCH "^([a-z]+) (.*)$" line "${line}")
  if(CMAKE_MATCH_1 STREQUAL "found")
    set(LibTorch_found "${CMAKE_MATCH_2}")
  elseif(CMAKE_MATCH_1 STREQUAL "version")
    set(LibTorch_VERSION "${CMAKE_MATCH_2}")
  elseif(CMAKE_MATCH_1 STREQUAL "origin" AND NOT LibTorch_ORIGIN)
    set(LibTorch_ORIGIN "${CMAKE_MATCH_2}" CACHE INTERNAL "Where the torch package was found")
  elseif(CMAKE_MATCH_1 STREQUAL "note")
    message(WARNING "${CMAKE_MATCH_2}")
  elseif(CMAKE_MATCH_1 STREQUAL "error")
    message(FATAL_ERROR "${CMAKE_MATCH_2}")
  endif()
endforeach()
set(LibTorch_ROOT_DIR "${LibTorch_found}" CACHE INTERNAL "Folder of the torch package that this build folder uses")
if(NOT LibTorch_ROOT_DIR STREQUAL LibTorch_before)
  unset(LibTorch_INCLUDE_DIR CACHE)
  foreach(library CPU C10 CUDA C10_CUDA CUDART)
    unset(LibTorch_${library}_LIBRARY CACHE)
  endforeach()
  foreach(headers CUDA NCCL CRT)
    unset(LibTorch_${headers}_INCLUDE_DIR CACHE)
  endforeach()
endif()
if(LibTorch_ROOT_DIR)
  message(STATUS "LibTorch ${LibTorch_VERSION} (${LibTorch_ORIGIN}): ${LibTorch_ROOT_DIR}")
  find_path(LibTorch_INCLUDE_DIR ATen/ATen.h PATHS ${LibTorch_ROOT_DIR}/include NO_DEFAULT_PATH)
  find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_C10_LIBRARY c10 PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run make setup, or give -DPANPIPE_LIBTORCH=<folder of the torch package>, or configure with -DPANPIPE_EXEC=OFF")
if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  add_library(LibTorch::cpu INTERFACE IMPORTED GLOBAL)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_compile_definitions(LibTorch::cpu INTERFACE _GLIBCXX_USE_CXX11_ABI=1 USE_DISTRIBUTED USE_C10D_GLOO)
  # The kernels register themselves: the library must stay although no symbol of it may be named.
  target_link_libraries(LibTorch::cpu INTERFACE "-Wl,--no-as-needed" ${LibTorch_CPU_LIBRARY} "-Wl,--as-needed" ${LibTorch_C10_LIBRARY})
endif()

if(LibTorch_FOUND)
  file(GLOB LibTorch_nvidia_includes ${LibTorch_ROOT_DIR}/../nvidia/*/include)
  file(GLOB LibTorch_nvidia_libraries ${LibTorch_ROOT_DIR}/../nvidia/*/lib)
  find_library(LibTorch_CUDA_LIBRARY torch_cuda PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_path(LibTorch_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${LibTorch_nvidia_includes} PATHS /usr/local/cuda/include)
  # The headers of CUDA include these, which are a package of their own; torch 2.15 does not ask for it.
  find_path(LibTorch_CRT_INCLUDE_DIR crt/host_config.h HINTS ${LibTorch_nvidia_includes} PATHS /usr/local/cuda/include)
  find_path(LibTorch_NCCL_INCLUDE_DIR nccl.h HINTS ${LibTorch_nvidia_includes} PATHS /usr/local/cuda/include)
  find_library(LibTorch_CUDART_LIBRARY NAMES cudart libcudart.so.13 libcudart.so.12 NAMES_PER_DIR
    HINTS ${LibTorch_nvidia_libraries} PATHS /usr/local/cuda/lib64)
endif()
if(LibTorch_CUDA_LIBRARY AND LibTorch_C10_CUDA_LIBRARY AND LibTorch_CUDA_INCLUDE_DIR AND LibTorch_CRT_INCLUDE_DIR
   AND LibTorch_NCCL_INCLUDE_DIR AND LibTorch_CUDART_LIBRARY)
  set(LibTorch_CUDA_FOUND ON)
  if(NOT TARGET LibTorch::cuda)
    add_library(LibTorch::cuda INTERFACE IMPORTED GLOBAL)
    target_include_directories(LibTorch::cuda SYSTEM INTERFACE ${LibTorch_CUDA_INCLUDE_DIR} ${LibTorch_NCCL_INCLUDE_DIR}
      ${LibTorch_CRT_INCLUDE_DIR})
    target_compile_definitions(LibTorch::cuda INTERFACE USE_C10D_NCCL)
    # What libtorch_cuda itself needs is found at run time, by its own search path.
    target_link_options(LibTorch::cuda INTERFACE "LINKER:--allow-shlib-undefined")
    target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu ${LibTorch_CUDA_LIBRARY} ${LibTorch_C10_CUDA_LIBRARY}
      ${LibTorch_CUDART_LIBRARY})
  endif()
endif()
