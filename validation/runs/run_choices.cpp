#include "validation/runs/run_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text/characters.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::validation {
namespace {

struct KernelWords {
  std::string_view words, kernel;
};
// The first that the cell contains counts. PyTorch's scaled_dot_product_attention takes FlashAttention-2 from 2.2 on.
constexpr std::array kKernelWords = {KernelWords{"fused softmax", "fused-softmax"},
                                     KernelWords{"fused-softmax", "fused-softmax"},
                                     KernelWords{"unfused", "unfused"},
                                     KernelWords{"sdpa math", "unfused"},
                                     KernelWords{"cudnn", "cudnn"},
                                     KernelWords{"triton", "flash-triton"}};

// Transformer Engine prefers cuDNN's kernels from Hopper on, and FlashAttention-2 before (its documentation, "Attention
// backends").
bool is_hopper_or_later(const std::string& gpu) {
  const DeviceType* device = device_of(gpu);
  return device != nullptr && device->compute_capability >= 9;
}

// The first digit behind the first "flash".
char flash_version(const std::string& words) {
  const std::size_t digit = words.find_first_of("0123456789", words.find("flash"));
  return digit == std::string::npos ? '\0' : words[digit];
}

}  // namespace

const std::vector<std::string>& framework_columns() {
  static const std::vector<std::string> columns = {"software",
                                                   "attention",
                                                   "elementwise",
                                                   "normalization",
                                                   "activation",
                                                   "autocast",
                                                   "gradient_accumulation",
                                                   "optimizer_kernel",
                                                   "gradient_clipping",
                                                   "zero_gradients",
                                                   "gradient_scaler",
                                                   "loss",
                                                   "loss_live_bytes_per_logit",
                                                   "gradient_storage",
                                                   "gradient_bucket_elements",
                                                   "dropout",
                                                   "tensor_inputs",
                                                   "fp8_parameters",
                                                   "gradient_bytes",
                                                   "overlap_all_reduce",
                                                   "overlap_reduce_scatter",
                                                   "overlap_parameter_gather"};
  return columns;
}

std::string attention_of_words(const std::string& words, const std::string& gpu) {
  const std::string cell = lower_case(words);
  for (const KernelWords& known : kKernelWords)
    if (cell.find(known.words) != std::string::npos) return std::string(known.kernel);
  if (cell.find("transformer engine") != std::string::npos) return is_hopper_or_later(gpu) ? "cudnn" : "flash-2";
  if (cell.find("flash") == std::string::npos) return "";
  const char version = flash_version(cell);
  return version == '1' ? "flash-1" : version == '3' ? "flash-3" : "flash-2";
}

std::vector<std::pair<std::string, std::string>> framework_choices(const RunRow& row, std::vector<std::string>& reported) {
  std::vector<std::pair<std::string, std::string>> choices;
  for (const std::string& key : framework_columns()) {
    const auto stated = row.framework_choices.find(key);
    if (stated != row.framework_choices.end()) {
      choices.emplace_back(key, stated->second);
    } else if (key == "attention" && !row.attention_kernel.empty()) {
      const std::string kernel = attention_of_words(row.attention_kernel, row.gpu);
      if (kernel.empty()) continue;
      choices.emplace_back(key, kernel);
      reported.push_back(fmt::format("attention: {} (attention_kernel: {})", kernel, row.attention_kernel));
    }
  }
  return choices;
}

}  // namespace panpipe::validation
