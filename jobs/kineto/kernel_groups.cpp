#include "jobs/kineto/kernel_groups.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/index.hpp"

namespace panpipe::jobs {
namespace {

struct GroupWords {
  KernelGroup group;
  std::vector<std::string_view> words;
};
using GroupTable = std::vector<GroupWords>;

// NCCL's kernels ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL") and PyTorch's words for collectives ("_allgather_base"), without
// underscores and in small letters; the first that a name holds.
const GroupTable& communication_words() {
  static const GroupTable table = {
      {KernelGroup::ReduceScatter, {"reducescatter"}}, {KernelGroup::AllGather, {"allgather"}},
      {KernelGroup::AllReduce, {"allreduce"}},         {KernelGroup::AllToAll, {"alltoall"}},
      {KernelGroup::Broadcast, {"broadcast"}},         {KernelGroup::SendReceive, {"sendrecv", "send", "recv"}},
      {KernelGroup::AllReduce, {"reduce", "barrier"}}};
  return table;
}

// Kernels of PyTorch, cuBLAS, cuDNN, FlashAttention, Transformer Engine, Apex and Triton. The first that a name holds: a fused
// optimizer is a "multi_tensor_apply", and the loss is a softmax that is no attention.
const GroupTable& kernel_words() {
  static const GroupTable table = {
      {KernelGroup::Optimizer, {"multitensorapply", "adam", "lamb"}},
      {KernelGroup::Elementwise, {"logsoftmax", "crossentropy", "nllloss"}},
      {KernelGroup::Attention, {"flash", "fmha", "attention", "attn", "softmax"}},
      {KernelGroup::Normalization, {"layernorm", "rmsnorm", "batchnorm", "groupnorm", "lnfwd", "lnbwd", "gammabeta"}},
      {KernelGroup::Products,
       {"gemm", "gemv", "nvjet", "xmma", "cutlass", "cublas", "splitk", "conv", "tritonmm", "wgrad", "dgrad"}},
      {KernelGroup::Elementwise, {"elementwise", "triton", "reduce", "dropout", "embedding", "index", "catarray", "rope"}}};
  return table;
}

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

KernelGroup first_word(const std::string& name, const GroupTable& table) {
  for (const auto& [group, words] : table)
    for (const std::string_view word : words)
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
    const KernelGroup named = first_word(plain_letters(collective), communication_words());
    if (named != KernelGroup::Other) return named;
  }
  if (plain.starts_with("nccl") || plain.starts_with("rccl")) return first_word(plain, communication_words());
  return first_word(plain, kernel_words());
}

}  // namespace panpipe::jobs
