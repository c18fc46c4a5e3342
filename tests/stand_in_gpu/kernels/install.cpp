// Puts the CPU's kernels in the place of CUDA's, when this library is loaded (cuda/devices.cpp loads it). Unreplaced operators
// work on sizes and strides alone, or consist of calls of the runtime. Without arithmetic (STAND_IN_ARITHMETIC=0) CUDA's own
// stay, but for those of cuDNN, which is not here.
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/stand_in_gpu/kernels/cudnn_memory.hpp"
#include "tests/stand_in_gpu/kernels/freed_memory.hpp"
#include "tests/stand_in_gpu/kernels/operators.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace panpipe::stand_in {
namespace {

const std::set<std::string>& left_as_they_are() {
  static const std::set<std::string> names = {"aten::_local_scalar_dense",
                                              "aten::_pin_memory",
                                              "aten::_reshape_alias",
                                              "aten::alias",
                                              "aten::as_strided",
                                              "aten::empty",
                                              "aten::empty_strided",
                                              "aten::equal",
                                              "aten::is_pinned",
                                              "aten::is_set_to",
                                              "aten::record_stream",
                                              "aten::resize_",
                                              "aten::set_",
                                              "aten::unfold",
                                              "aten::view",
                                              "aten::view_as_complex",
                                              "aten::view_as_real"};
  return names;
}

bool is_view(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& result) { return result.alias_info() && !result.alias_info()->isWrite(); });
}

// The first kernel on a device: the caching allocator is in use by then.
void run_first(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  overwrite_freed_memory();
  run_operator(op, stack);
}

// Attention as products and a softmax: the fused kernels are CUDA's alone.
std::int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, double,
                              bool, std::optional<double>, bool) {
  return static_cast<std::int64_t>(at::SDPBackend::math);
}

// LibTorch warns when a kernel replaces another, which is the purpose here.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

struct Installed {
  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__};

  Installed() {
    Silence silence;
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    if (computes())
      install_kernels();
    else
      install_cudnn_memory(library);
  }

  void install_kernels() {
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (name.name.rfind("aten::", 0) != 0 || left_as_they_are().contains(name.name)) continue;
      if (name.name == "aten::copy_" || name.name == "aten::_fused_sdp_choice") continue;
      const auto op = c10::Dispatcher::singleton().findSchema(name);
      if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA) || is_view(op->schema())) continue;
      library.impl((name.name + (name.overload_name.empty() ? "" : "." + name.overload_name)).c_str(),
                   torch::CppFunction::makeFromBoxedFunction<&run_first>());
    }
    library.impl("aten::copy_", TORCH_FN(copy_tensor));
    library.impl("aten::_fused_sdp_choice", TORCH_FN(choose_attention));
    at::globalContext().setSDPUseFlash(false);
    at::globalContext().setSDPUseMemEfficient(false);
    at::globalContext().setSDPUseCuDNN(false);
    // Convolutions by the operators that have a kernel on the CPU.
    at::globalContext().setUserEnabledCuDNN(false);
  }
};

__attribute__((constructor)) void install() {
  static const auto* installed = new Installed;
  (void)installed;
}

}  // namespace
}  // namespace panpipe::stand_in
