// PipeDream-2BW (Narayanan et al., ICML 2021): the order of 1F1B, but without a flush. The forwards of the next step take the
// places where 1F1B drains, so that a rank waits in its first step alone. A step's passes run with the weights from before the
// last update, W(t+1) = W(t) - lr * gradient(W(t-1)): two versions are held, and gradients are stale by one update.
#include <fmt/format.h>

#include "schedule/order_building.hpp"

namespace panpipe {

ScheduleFamily one_f_one_b_family();

namespace {

constexpr const char* kName = "pipedream-2bw";

Schedule make_2bw(int ranks, int microbatches, const ScheduleOptions& options) {
  Schedule schedule = std::get<ScheduleFamily::Fixed>(one_f_one_b_family().generate)(ranks, microbatches, options);
  schedule.name = kName;
  return schedule;
}

// With fewer, forwards of the step after next would come before this step's update, and need a third version.
std::string refusal(int ranks, int microbatches, const ScheduleOptions&) {
  if (microbatches >= ranks) return "";
  return fmt::format(
      "{} holds two versions of the weights, which is enough with as many microbatches in a step as ranks: {}, not {}", kName,
      ranks, microbatches);
}

}  // namespace

ScheduleFamily pipedream_2bw_family() {
  return {kName,
          "1f1b without a flush: two versions of the weights, gradients stale by one update",
          "Narayanan et al., Memory-efficient pipeline-parallel DNN training, ICML 2021 (arXiv 2006.09503)",
          {},
          make_2bw,
          refusal,
          /*planned=*/false};
}

}  // namespace panpipe
