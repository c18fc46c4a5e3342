# LibTorch from the pip wheel in .venv (or -DPANPIPE_LIBTORCH=<folder of the torch package>). Makes LibTorch::cpu.
#
# find_package(Torch) is not used: it fails without a CUDA toolkit and drags CUDA in with one. Only libtorch_cpu and libc10
# are linked; CUDA comes at run time (exec/engine/cuda.hpp).
set(PANPIPE_LIBTORCH "" CACHE PATH "Folder of the torch package (empty: the one in .venv)")
if(PANPIPE_LIBTORCH)
  set(LibTorch_ROOT_DIR ${PANPIPE_LIBTORCH})
else()
  file(GLOB LibTorch_candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
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
  target_link_options(LibTorch::cpu INTERFACE "LINKER:-rpath,${LibTorch_ROOT_DIR}/lib")
  # The kernels register themselves: the library must stay although no symbol of it may be named.
  target_link_libraries(LibTorch::cpu INTERFACE "-Wl,--no-as-needed" ${LibTorch_CPU_LIBRARY} "-Wl,--as-needed" ${LibTorch_C10_LIBRARY})
endif()
