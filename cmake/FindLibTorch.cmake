# LibTorch from the pip wheel in .venv (or -DPANPIPE_LIBTORCH=<folder of the torch package>). Makes LibTorch::cpu, and
# LibTorch::cuda (for modules that are loaded at run time) where the wheel has CUDA and its headers and NCCL's are found: in the
# wheel's own nvidia packages, or in a CUDA toolkit. Host code only: no nvcc.
#
# find_package(Torch) is not used: it fails without a CUDA toolkit and drags CUDA in with one. Only libtorch_cpu and libc10
# are linked; CUDA comes at run time (exec/engine/cuda.hpp).
set(PANPIPE_LIBTORCH "" CACHE PATH "Folder of the torch package (empty: the one in .venv)")
if(PANPIPE_LIBTORCH)
  set(LibTorch_ROOT_DIR ${PANPIPE_LIBTORCH})
else()
  # Looked for again at every build: make setup may have installed it since.
  file(GLOB LibTorch_candidates CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  if(LibTorch_candidates)
    list(GET LibTorch_candidates 0 LibTorch_ROOT_DIR)
  endif()
endif()
if(LibTorch_ROOT_DIR)
  find_path(LibTorch_INCLUDE_DIR ATen/ATen.h PATHS ${LibTorch_ROOT_DIR}/include NO_DEFAULT_PATH)
  find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_C10_LIBRARY c10 PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  set(version_file ${LibTorch_ROOT_DIR}/include/torch/headeronly/version.h)
  if(EXISTS ${version_file})
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS ${version_file} line REGEX "define TORCH_VERSION_${part} ")
      string(REGEX REPLACE ".*${part} ([0-9]+).*" "\\1" LibTorch_${part} "${line}")
    endforeach()
    set(LibTorch_VERSION ${LibTorch_MAJOR}.${LibTorch_MINOR}.${LibTorch_PATCH})
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run make setup, or give -DPANPIPE_LIBTORCH=<folder of the torch package>, or configure with -DPANPIPE_EXEC=OFF")
if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
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
  find_path(LibTorch_CUDA_INCLUDE_DIR cuda_runtime_api.h PATHS ${LibTorch_nvidia_includes} /usr/local/cuda/include)
  find_path(LibTorch_NCCL_INCLUDE_DIR nccl.h PATHS ${LibTorch_nvidia_includes} /usr/local/cuda/include)
  find_library(LibTorch_CUDART_LIBRARY NAMES cudart libcudart.so.13 libcudart.so.12
    PATHS ${LibTorch_nvidia_libraries} /usr/local/cuda/lib64)
endif()
if(LibTorch_CUDA_LIBRARY AND LibTorch_C10_CUDA_LIBRARY AND LibTorch_CUDA_INCLUDE_DIR AND LibTorch_NCCL_INCLUDE_DIR
   AND LibTorch_CUDART_LIBRARY)
  set(LibTorch_CUDA_FOUND ON)
  if(NOT TARGET LibTorch::cuda)
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    target_include_directories(LibTorch::cuda SYSTEM INTERFACE ${LibTorch_CUDA_INCLUDE_DIR} ${LibTorch_NCCL_INCLUDE_DIR})
    target_compile_definitions(LibTorch::cuda INTERFACE USE_C10D_NCCL)
    # What libtorch_cuda itself needs is found at run time, by its own search path.
    target_link_options(LibTorch::cuda INTERFACE "LINKER:--allow-shlib-undefined")
    target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu ${LibTorch_CUDA_LIBRARY} ${LibTorch_C10_CUDA_LIBRARY}
      ${LibTorch_CUDART_LIBRARY})
  endif()
endif()
