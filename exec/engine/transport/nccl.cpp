// Loads the module that knows CUDA and NCCL; this program is linked with neither.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"
#include "exec/engine/device.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {
namespace {

// Beside the program, where the build puts both.
std::string module_path() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / "panpipe_nccl.so").string();
}

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(const ProcessOptions& options) {
  // Loads LibTorch's CUDA libraries, in which the module finds its symbols.
  std::string why;
  if (gpu_count(&why) == 0)
    throw MachineError(fmt::format(
        "--transport nccl needs an NVIDIA GPU for every rank, and this machine has none to use: {}; use --transport gloo", why));
  const std::string path = module_path();
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module)
    throw MachineError(
        fmt::format("the NCCL transport cannot be loaded ({}); it is built where LibTorch comes with CUDA", dlerror()));
  using Make = Transport* (*)(const ProcessOptions&);
  const auto make = reinterpret_cast<Make>(dlsym(module, "panpipe_make_nccl_transport"));
  PANPIPE_CHECK(make, "the NCCL module has no entry");
  return std::unique_ptr<Transport>(make(options));
}

}  // namespace panpipe::exec
