#include "jobs/torch/schedules.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "jobs/export_parts.hpp"

namespace panpipe::jobs {
namespace {

// torch.distributed.pipelining.schedules.get_schedule_class of PyTorch 2.11. A V has two stages a rank.
constexpr TorchSchedule kTorchSchedules[] = {
    {"gpipe", "GPipe"},
    {"1f1b", "1F1B"},
    {"kfkb"},
    {"interleaved-1f1b", "Interleaved1F1B", 2},
    {"looped-bfs", "LoopedBFS", 2},
    {"pfeife"},
    {.family = "1f1b-v", .loop = false},
    {.family = "hanayo", .loop = false},
    {"zb-h1"},
    {"zb-h2"},
    {"zb-auto"},
    {"interleaved-zero-bubble", "InterleavedZeroBubble", 2},
    {"group-interleaved"},
    {"gis-h"},
    {"zb-v", "ZBVZeroBubble", 2, false},
    {.family = "zb-v-auto", .loop = false},
    {.family = "v-half", .loop = false},
    {.family = "v-min", .loop = false},
    {.family = "v-auto", .loop = false},
    {"dualpipe-v", "DualPipeV", 2, false},
    {.family = "stp", .loop = false},
};

}  // namespace

std::span<const TorchSchedule> torch_schedules() { return kTorchSchedules; }

TorchOrder torch_order(const Schedule& schedule) {
  TorchOrder order;
  order.csv = to_csv(schedule, true);
  std::erase(order.csv, '\r');
  std::vector<std::string> families;
  for (const TorchSchedule& known : kTorchSchedules)
    if (!known.name.empty()) families.emplace_back(known.family);
  const auto known = known_order(schedule, families);
  if (!known || known->turn != 0) return order;
  // PyTorch's schedules of one stage a rank want a microbatch for each stage.
  if (schedule.stages == schedule.ranks && schedule.microbatches < schedule.ranks) return order;
  for (const TorchSchedule& one : kTorchSchedules)
    if (known->family == one.family) order.name = one.name;
  return order;
}

}  // namespace panpipe::jobs
