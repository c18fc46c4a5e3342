#include "costmodel/run_cost/run_cost_text.hpp"

#include <fmt/format.h>

#include "base/text/percent.hpp"
#include "base/text/run_quantity_text.hpp"

namespace panpipe {

std::string run_lines(const RunCost& cost) {
  const std::string steps = cost.counted == RunRequest::Counted::Steps ? "" : fmt::format(" in {} steps", count_text(cost.steps));
  std::string out =
      fmt::format("run  {} {}{}: {} on {:.0f} GPU{}, {} GPU hours\n", count_text(cost.amount), name_of(cost.counted), steps,
                  long_time_text(cost.time_s), cost.gpus, cost.gpus == 1 ? "" : "s", count_text(cost.gpu_hours));
  if (cost.goodput) {
    out += fmt::format("     goodput {}: a checkpoint of {} every {}", percent(*cost.goodput), long_time_text(*cost.checkpoint_s),
                       long_time_text(*cost.checkpoint_interval_s));
    out += cost.mtbf_s ? fmt::format(", a failure every {}\n", long_time_text(*cost.mtbf_s)) : "\n";
  }
  if (cost.cost) out += fmt::format("     {} at {} a GPU hour\n", money_text(*cost.cost, cost.currency), cost.price_origin);
  if (cost.time_p10_s && cost.time_p90_s) {
    out += fmt::format("     80 % of runs are expected to take {} to {}", long_time_text(*cost.time_p10_s),
                       long_time_text(*cost.time_p90_s));
    out += cost.cost_p10 && cost.cost_p90
               ? fmt::format(", {} to {}\n", money_text(*cost.cost_p10, cost.currency), money_text(*cost.cost_p90, cost.currency))
               : "\n";
  }
  if (cost.energy_kwh) {
    out += fmt::format("     {} ({})", energy_text(*cost.energy_kwh), cost.power_origin);
    out += cost.carbon_kg ? fmt::format(", {:.4g} t of CO2 equivalent\n", *cost.carbon_kg / 1000) : "\n";
  }
  return out;
}

std::string rl_lines(const RlStep& step) {
  const bool apart = step.gpus > step.training_gpus;
  const std::string generating = apart ? fmt::format("{:.0f} GPUs", step.gpus - step.training_gpus) : "the same GPUs";
  std::string out = fmt::format("rl   rollouts {} on {}, training {} on {:.0f}: an update every {}\n", time_text(step.rollout_s),
                                generating, time_text(step.training_s), step.training_gpus, time_text(step.period_s));
  if (apart)
    out += fmt::format("     GPUs wait: those that generate {} of it, those that train {}\n", percent(step.idle_rollout),
                       percent(step.idle_training));
  if (step.best)
    out += fmt::format("     of {:.0f} GPUs {} generating and {} training would need {}, if both halves scale\n", step.gpus,
                       step.best->rollout, step.best->training, time_text(step.best->period_s));
  return out;
}

}  // namespace panpipe
