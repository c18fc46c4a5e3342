#include "planner/auto/configuration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/text/counted.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/scenario/hosted_text.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "planner/family_form.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::planner {

namespace {

constexpr std::size_t kMostListed = 8;  // stages whose numbers of blocks are listed

// " in 4, 2, 1, 0 blocks of the stages"
std::string blocks_text(const std::vector<int>& blocks) {
  if (blocks.empty()) return "";
  const auto [least, most] = std::minmax_element(blocks.begin(), blocks.end());
  if (blocks.size() == 1) return fmt::format(" in {}", counted(*most, "block"));
  if (*least == *most) return fmt::format(" in {} of each stage", counted(*most, "block"));
  if (blocks.size() <= kMostListed) return fmt::format(" in {} blocks of the stages", fmt::join(blocks, ", "));
  return fmt::format(" in {} blocks, {} to {} of a stage", std::accumulate(blocks.begin(), blocks.end(), 0), *least, *most);
}

}  // namespace

std::string summary_of(const Configuration& c, std::string_view schedule, const HostedState& hosted,
                       const std::vector<int>& recomputed, const RecomputeScope& scope) {
  std::string text = product_text(c);
  if (c.sequence_parallel) text += " + sequence";
  const std::string_view family = forms()[c.family].name;
  const std::string_view shown = !family.empty() ? family : schedule.empty() ? "the scenario's schedule" : schedule;
  text += fmt::format(", {}", shown);
  if (c.virtual_stages > 1) text += fmt::format(" with {} stages a rank", c.virtual_stages);
  RecomputeScope kinds;  // the blocks have words of their own
  kinds.operators = scope.operators;
  kinds.modules = scope.modules;
  const bool by_order = has_option(shown, "ways") && c.recompute == Recompute::None;
  text += fmt::format(", {} x {} samples, recompute {}{}", c.microbatches, c.micro,
                      by_order ? "as the order has it" : recompute_words(c.recompute, kinds), blocks_text(recomputed));
  if (c.zero > 0) text += fmt::format(", ZeRO {}", c.zero);
  if (c.zero > 0 && c.shard > 0) text += fmt::format(" in groups of {}", c.shard);
  if (c.expert > 1) text += fmt::format(", experts over {}", c.expert);
  if (c.tensor > 1 && c.expert_tensor == 1) text += c.expert > 1 ? ", each whole" : ", experts whole";
  if (c.order == AxisOrder::PipelineNext) text += ", ranks of a replica side by side";
  if (const std::string where = hosted_text(hosted); !where.empty()) text += ", " + where;
  return text;
}

}  // namespace panpipe::planner
