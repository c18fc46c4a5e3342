#include "jobs/kernel_groups.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/index.hpp"

namespace panpipe::jobs {
namespace {

using Word = std::pair<std::string_view, KernelGroup>;

// NCCL's kernels ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL") and PyTorch's words for collectives ("_allgather_base"), without
// underscores and in small letters; the first that a name holds.
constexpr std::array<Word, 10> kCommunicationWords = {{{"reducescatter", KernelGroup::ReduceScatter},
                                                       {"allgather", KernelGroup::AllGather},
                                                       {"allreduce", KernelGroup::AllReduce},
                                                       {"alltoall", KernelGroup::AllToAll},
                                                       {"broadcast", KernelGroup::Broadcast},
                                                       {"sendrecv", KernelGroup::SendReceive},
                                                       {"send", KernelGroup::SendReceive},
                                                       {"recv", KernelGroup::SendReceive},
                                                       {"reduce", KernelGroup::AllReduce},
                                                       {"barrier", KernelGroup::AllReduce}}};

// Kernels of PyTorch, cuBLAS, cuDNN, FlashAttention, Transformer Engine, Apex and Triton. The first that a name holds: a fused
// optimizer is a "multi_tensor_apply", and the loss is a softmax that is no attention.
constexpr std::array<Word, 37> kKernelWords = {{{"multitensorapply", KernelGroup::Optimizer},
                                                {"adam", KernelGroup::Optimizer},
                                                {"lamb", KernelGroup::Optimizer},
                                                {"logsoftmax", KernelGroup::Elementwise},
                                                {"crossentropy", KernelGroup::Elementwise},
                                                {"nllloss", KernelGroup::Elementwise},
                                                {"flash", KernelGroup::Attention},
                                                {"fmha", KernelGroup::Attention},
                                                {"attention", KernelGroup::Attention},
                                                {"attn", KernelGroup::Attention},
                                                {"softmax", KernelGroup::Attention},
                                                {"layernorm", KernelGroup::Normalization},
                                                {"rmsnorm", KernelGroup::Normalization},
                                                {"batchnorm", KernelGroup::Normalization},
                                                {"groupnorm", KernelGroup::Normalization},
                                                {"lnfwd", KernelGroup::Normalization},
                                                {"lnbwd", KernelGroup::Normalization},
                                                {"gammabeta", KernelGroup::Normalization},
                                                {"gemm", KernelGroup::Products},
                                                {"gemv", KernelGroup::Products},
                                                {"nvjet", KernelGroup::Products},
                                                {"xmma", KernelGroup::Products},
                                                {"cutlass", KernelGroup::Products},
                                                {"cublas", KernelGroup::Products},
                                                {"splitk", KernelGroup::Products},
                                                {"conv", KernelGroup::Products},
                                                {"tritonmm", KernelGroup::Products},
                                                {"wgrad", KernelGroup::Products},
                                                {"dgrad", KernelGroup::Products},
                                                {"elementwise", KernelGroup::Elementwise},
                                                {"triton", KernelGroup::Elementwise},
                                                {"reduce", KernelGroup::Elementwise},
                                                {"dropout", KernelGroup::Elementwise},
                                                {"embedding", KernelGroup::Elementwise},
                                                {"index", KernelGroup::Elementwise},
                                                {"catarray", KernelGroup::Elementwise},
                                                {"rope", KernelGroup::Elementwise}}};

// Small letters and digits alone: names differ in underscores and capitals from release to release.
std::string plain_letters(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

// PyTorch's kernels name the C++ lambda that they run ("{lambda(float)#1}"), which is no LAMB.
std::string without_lambdas(std::string plain) {
  constexpr std::string_view kLambda = "lambda";
  for (std::size_t at = plain.find(kLambda); at != std::string::npos; at = plain.find(kLambda, at))
    plain.erase(at, kLambda.size());
  return plain;
}

template <std::size_t N>
KernelGroup first_word(const std::string& name, const std::array<Word, N>& words) {
  for (const auto& [word, group] : words)
    if (name.find(word) != std::string::npos) return group;
  return KernelGroup::Other;
}

}  // namespace

std::string_view name_of(KernelGroup group) {
  constexpr std::array<std::string_view, kKernelGroups> kNames = {
      "products",       "attention",  "normalization", "element-wise", "optimizer", "all_reduce", "all_gather",
      "reduce_scatter", "all_to_all", "broadcast",     "send_recv",    "copies",    "other"};
  return kNames[at(group)];
}

KernelGroup group_of_kernel(std::string_view category, std::string_view name, std::string_view collective) {
  if (category == "gpu_memcpy" || category == "gpu_memset") return KernelGroup::Copies;
  const std::string plain = without_lambdas(plain_letters(name));
  if (!collective.empty()) {
    const KernelGroup named = first_word(plain_letters(collective), kCommunicationWords);
    if (named != KernelGroup::Other) return named;
  }
  if (plain.starts_with("nccl") || plain.starts_with("rccl")) return first_word(plain, kCommunicationWords);
  return first_word(plain, kKernelWords);
}

}  // namespace panpipe::jobs
