// Checks that the NCCL module was compiled with headers of the NCCL that it and LibTorch run with. LibTorch's options contain
// NCCL's configuration by value: with headers of another release the module would make them too small, and LibTorch would write
// past their end.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace panpipe::exec {

// The release of a version number: 22809 is 2.28.9.
inline std::string nccl_release(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

struct NcclFit {
  int headers = 0;                   // NCCL_VERSION_CODE of the headers
  int loaded = 0;                    // ncclGetVersion() of the library; 0: NCCL is inside LibTorch and its functions are hidden
  std::size_t size_in_headers = 0;   // of ncclConfig_t
  std::size_t size_in_libtorch = 0;  // as filled in by LibTorch

  // Empty if they fit. A newer library accepts older headers; NCCL guarantees that within a major release.
  std::string problem() const {
    const std::string remedy =
        "compile Panpipe with the headers that this torch package comes with: make build, with its folder in "
        "PANPIPE_LIBTORCH if it is not the one in .venv";
    if (size_in_headers != size_in_libtorch)
      return fmt::format(
          "the NCCL transport was compiled with headers of NCCL {}, whose configuration takes {} bytes, and LibTorch with "
          "others, "
          "whose takes {}: {}",
          nccl_release(headers), size_in_headers, size_in_libtorch, remedy);
    if (loaded == 0) return "";
    if (loaded / 10000 != headers / 10000 || loaded < headers)
      return fmt::format("the NCCL transport was compiled with headers of NCCL {}, and the library that is loaded is NCCL {}: {}",
                         nccl_release(headers), nccl_release(loaded), remedy);
    return "";
  }
};

}  // namespace panpipe::exec
