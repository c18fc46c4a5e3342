#include "jobs/torch_schedules.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "jobs/export_parts.hpp"

namespace panpipe::jobs {
namespace {

// torch.distributed.pipelining.schedules.get_schedule_class of PyTorch 2.11.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"gpipe", "GPipe"},
    {"1f1b", "1F1B"},
    {"interleaved-1f1b", "Interleaved1F1B"},
    {"looped-bfs", "LoopedBFS"},
    {"interleaved-zero-bubble", "InterleavedZeroBubble"},
    {"zb-v", "ZBVZeroBubble"},
    {"dualpipe-v", "DualPipeV"},
};

}  // namespace

TorchOrder torch_order(const Schedule& schedule) {
  TorchOrder order;
  order.csv = to_csv(schedule, true);
  std::erase(order.csv, '\r');
  std::vector<std::string_view> families;
  for (const auto& [family, name] : kNames) families.push_back(family);
  const auto known = known_order(schedule, families);
  if (!known || known->turn != 0) return order;
  // PyTorch's schedules of one stage a rank want a microbatch for each stage.
  if (schedule.stages == schedule.ranks && schedule.microbatches < schedule.ranks) return order;
  for (const auto& [family, name] : kNames)
    if (known->family == family) order.name = name;
  return order;
}

}  // namespace panpipe::jobs
