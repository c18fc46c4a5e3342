#include "exec/engine/profile/host_copies.hpp"

#include <ATen/Functions.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files/standard_output.hpp"
#include "exec/engine/device.hpp"
#include "exec/engine/profile/stopwatch.hpp"

namespace panpipe::exec {
namespace {

// Bytes per second, over pinned memory as offloading uses it.
double copy_rate(const at::Tensor& from, const at::Tensor& to, c10::Device gpu) {
  return static_cast<double>(from.nbytes()) / median_seconds(gpu, 7, [&] { to.copy_(from, /*non_blocking=*/true); });
}

}  // namespace

int execute_copies() {
  const int gpus = require_gpus();
  constexpr std::int64_t kBytes = 64 << 20;  // some milliseconds over PCIe: what starts a copy does not count
  for (int number = 0; number < gpus; ++number) {
    const RankDevice device("cuda", number);
    const at::Tensor there = at::zeros({kBytes}, at::TensorOptions(device.device()).dtype(at::kByte));
    const at::Tensor here = at::empty({kBytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    const nlohmann::ordered_json line = {{"gpu", number},
                                         {"to_gpu", copy_rate(here, there, device.device())},
                                         {"from_gpu", copy_rate(there, here, device.device())}};
    print(line.dump() + "\n");
  }
  return 0;
}

}  // namespace panpipe::exec
