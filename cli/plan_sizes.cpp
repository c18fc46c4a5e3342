#include "cli/plan_sizes.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "present/result/heading.hpp"

namespace panpipe::cli {

void add_size_options(CLI::App& sub, app::SizeOptions& options) {
  add_number(sub, "--gpus", options.gpus, "plan for clusters of so many GPUs each: --gpus 8,16,32", 1, 1'000'000, "N,N")
      ->delimiter(',');
  add_number(sub, "--nodes", options.nodes, "the same by nodes: --nodes 1,2,4", 1, 1'000'000, "N,N")->delimiter(',');
  add_typed(sub, "--deadline", options.deadline, "how many GPUs train the whole run in so long: --deadline 7d", "TIME");
  add_typed(sub, "--budget", options.budget, "how many GPUs train the whole run for so much: --budget 50000USD", "MONEY");
  add_typed(sub, "--tokens", options.tokens, "the tokens of the whole run, as run.tokens: --tokens 300B", "COUNT");
}

int run_sizes(const app::PlanQuestion& question, const app::Search& search, bool json,
              const std::function<void(const Experiment&, const planner::Answer&, const std::string& size)>& keep) {
  const app::SizesAnswer answer =
      app::answer_sizes(question, search, [](int gpus) { show_line(gpus > 0 ? fmt::format("trying {} GPUs", gpus) : ""); });
  if (json) {
    print(study::to_json(answer.request, answer.tried));
  } else {
    const Scenario scenario = question.searched();
    show(present::heading_of_sweep(scenario, make_workload(scenario), {answer.key.key}, true) +
         study::to_table(answer.request, answer.tried, style_of_output().width));
  }
  if (answer.best < 0) return static_cast<int>(ExitCode::CheckFailed);
  const int nodes = answer.tried[answer.best].nodes;
  const auto& [experiment, found] = answer.found.at(nodes);
  if (keep) keep(*experiment, found, "--set " + app::size_setting(answer.key, nodes));
  return static_cast<int>(ExitCode::Done);
}

}  // namespace panpipe::cli
