#include "exec/engine/connect_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/measure/gathered.hpp"

namespace panpipe::exec {

namespace {

// (from, to) of all messages that `rank` sends or receives in a step: activations, gradients, and keys and values among
// context-parallel ranks.
std::vector<std::pair<int, int>> ways_of(const Plan& plan, const StageLayout& layout, int rank) {
  const MeshPlace mine = place_of(plan, rank);
  std::set<std::pair<int, int>> ways;
  for (const Message& message : layout.messages) {
    const int from = rank_of_stage(plan, message.from, mine), to = rank_of_stage(plan, message.to, mine);
    if (from == to || (from != rank && to != rank)) continue;
    ways.emplace(from, to);
    if (std::find(message.gradient.begin(), message.gradient.end(), true) != message.gradient.end()) ways.emplace(to, from);
  }
  for (const int other : group_of(plan, Among::Context, rank))  // a ring goes one way forwards, the other way backwards
    if (other != rank) ways.insert({{rank, other}, {other, rank}});
  return {ways.begin(), ways.end()};
}

}  // namespace

void connect_ranks(RankSite& site) {
  Transport& transport = site.transport;
  if (!site.device.is_cuda() || std::string_view(transport.name()) != "nccl") return;
  transport.set_action("connecting the GPUs");
  const std::int64_t free = device_bytes(site.device).free;
  transport.connect(ways_of(site.plan, site.layout, transport.rank()), site.device, site.deadline);
  const std::vector<std::int64_t> taken =
      gathered(transport, free - device_bytes(site.device).free, site.deadline, "connecting the GPUs");
  const std::int64_t most = *std::max_element(taken.begin(), taken.end());
  if (transport.rank() == 0 && most > 0)
    std::fputs(fmt::format("panpipe: NCCL's connections take {:.0f} MiB of a GPU's memory, which predictions do not count\n",
                           static_cast<double>(most) / 0x1p20)
                   .c_str(),
               stderr);
}

}  // namespace panpipe::exec
