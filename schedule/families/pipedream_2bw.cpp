// PipeDream-2BW (Narayanan et al., ICML 2021): the order of 1F1B, but without a flush. The forwards of the next step take the
// places where 1F1B drains, so that a rank waits in its first step alone. A step's passes run with the weights from before the
// last k - 1 updates, W(t+1) = W(t) - lr * gradient(W(t-k+1)): k versions are held, on every rank. k = 2 is 2BW; where a step has
// fewer microbatches than ranks it takes more, up to P of one microbatch each (PipeDream's stashed weights, with the same version
// on all ranks: Narayanan et al., SOSP 2019, vertical sync). One version takes the flush.
#include <fmt/format.h>

#include "schedule/order_building.hpp"
#include "schedule/rolling.hpp"

namespace panpipe {

ScheduleFamily one_f_one_b_family();

namespace {

constexpr const char* kName = "pipedream-2bw";

int versions_of(const ScheduleOptions& options) { return integer_option(options, "versions", 2, 1); }

Schedule make_2bw(int ranks, int microbatches, const ScheduleOptions& options) {
  Schedule schedule = std::get<ScheduleFamily::Fixed>(one_f_one_b_family().generate)(ranks, microbatches, options);
  if (versions_of(options) > 1) schedule.name = kName;
  return schedule;
}

// With fewer, forwards of a later step would come before the update whose weights they read; with more, gradients would be staler
// for nothing.
std::string refusal(int ranks, int microbatches, const ScheduleOptions& options) {
  const int versions = versions_of(options), needed = versions_needed(ranks, microbatches);
  if (versions == 1 || versions == needed) return "";
  return fmt::format(
      "{} with {} microbatches in a step of {} ranks holds {} versions of the weights, not {}: state versions={}{}", kName,
      microbatches, ranks, needed, versions, needed,
      versions < needed ? fmt::format(", or take {} microbatches for 2", ranks) : "");
}

}  // namespace

ScheduleFamily pipedream_2bw_family() {
  return {kName,
          "1f1b without a flush: k versions of the weights, gradients stale by k - 1 updates",
          "Narayanan et al., Memory-efficient pipeline-parallel DNN training, ICML 2021 (arXiv 2006.09503)",
          {{"versions", "2"}},
          make_2bw,
          refusal,
          /*planned=*/false};
}

}  // namespace panpipe
