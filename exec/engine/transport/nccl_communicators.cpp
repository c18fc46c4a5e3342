#include "exec/engine/transport/nccl_communicators.hpp"

#include <ATen/ops/from_blob.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <new>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/error.hpp"
#include "exec/engine/transport/gloo.hpp"
#include "exec/engine/transport/nccl_fit.hpp"

namespace panpipe::exec {
namespace {

// Thread blocks, each of which holds a multiprocessor, that one direction of one pair may take. A receive holds them from the
// announcement on, while the sender still computes, and a rank in a pipeline has four directions. Four blocks move 80 GB/s and
// more: NCCL plans 20 GB/s or more for each (its source, src/graph/search.cc, speedArrayIntra). NCCL_MAX_CTAS overrides this.
constexpr int kBlocksOfADirection = 4;

// The size of NCCL's configuration as LibTorch was compiled with it, read from options that its constructor in libtorch_cuda
// fills in. They are constructed in more memory than any release needs, because their size is unknown.
std::size_t configuration_of_libtorch() {
  using Options = c10d::ProcessGroupNCCL::Options;
  constexpr std::size_t kRoom = 64 * 1024;
  static_assert(sizeof(Options) < kRoom / 2);
  alignas(alignof(std::max_align_t)) static std::array<std::byte, kRoom> room;
  const auto* options = new (room.data()) Options(false);  // never destroyed: its members may lie elsewhere
  return options->config.size;
}

}  // namespace

void check_nccl() {
  NcclFit fit{NCCL_VERSION_CODE, 0, sizeof(ncclConfig_t), configuration_of_libtorch()};
  if (const auto version = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "ncclGetVersion"))) version(&fit.loaded);
  if (const std::string problem = fit.problem(); !problem.empty()) throw MachineError(problem);
}

// NCCL gives a GPU to one rank of a communicator alone. By what it tells them apart (NCCL's source, src/init.cc): host and
// place on the bus.
void check_own_gpu(GlooTransport& transport, int device, Clock::duration deadline) {
  char bus[32] = {};
  cudaDeviceGetPCIBusId(bus, sizeof(bus), device);
  const std::string mine = fmt::format("GPU {} of host {}", bus, host_name());
  std::map<std::pair<std::string, std::string>, std::vector<int>> ranks;  // by host and GPU
  const std::vector<std::string> hosts = transport.all_gather(host_identity(), deadline, "comparing GPUs"),
                                 gpus = transport.all_gather(mine, deadline, "comparing GPUs");
  for (std::size_t other = 0; other < gpus.size(); ++other) ranks[{hosts[other], gpus[other]}].push_back(static_cast<int>(other));
  for (const auto& [gpu, sharing] : ranks) {
    if (sharing.size() < 2) continue;
    transport.leave(deadline, "comparing GPUs");  // every rank reports the same, and none takes it for the loss of another
    throw MachineError(fmt::format(
        "--transport nccl needs a GPU for every rank: ranks {} share {}. Start as many ranks on a host as it has GPUs, "
        "show each another one (CUDA_VISIBLE_DEVICES), or share with --transport gloo",
        fmt::join(sharing, ", "), gpu.second));
  }
}

// On streams of high priority, so that the little that NCCL computes need not wait for a large kernel to end.
NcclPtr NcclCommunicators::make(const std::string& name, int place, int count, bool pair) const {
  auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  if (pair) options->config.maxCTAs = kBlocksOfADirection;
  options->timeout = std::chrono::hours(24 * 365);  // who gives up, and when, is the watch's matter
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>(name, store_()), place, count,
                                                     options);
}

NcclPtr NcclCommunicators::of_pair(int from, int to) {
  const std::lock_guard hold(lock_);
  NcclPtr& group = pairs_[{from, to}];
  if (!group) group = make(fmt::format("nccl-{}-to-{}", from, to), rank_ == from ? 0 : 1, 2, true);
  return group;
}

NcclPtr NcclCommunicators::of_group(const Group& asked) {
  NcclPtr& group = groups_[asked.id];
  if (!group) {
    group = make(fmt::format("nccl-group-{}", fmt::join(asked.ranks, "-")), static_cast<int>(member_of(asked, rank_)),
                 static_cast<int>(asked.ranks.size()), false);
  }
  return group;
}

at::Tensor as_bytes(const at::Tensor& value) { return value.view({-1}).view(at::kByte); }

at::Tensor lent_bytes(const at::Tensor& value) {
  return at::from_blob(
      value.data_ptr(), {static_cast<std::int64_t>(value.nbytes())}, [value](void*) {},
      at::TensorOptions(at::kByte).device(value.device()), value.device());
}

bool nccl_sums(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kInt:
    case at::kLong:
    case at::kChar:
    case at::kByte:
      return true;
    default:
      return false;
  }
}

}  // namespace panpipe::exec
