#include "cli/largest.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "present/result/heading.hpp"

namespace panpipe::cli {

void add_largest_options(CLI::App& sub, app::LargestRequest& request) {
  add_typed(
      sub, "--largest", request.of,
      "the largest microbatch, or the longest sequence, that fits, in place of a step; what ends it, and how surely it fits",
      "micro|sequence");
  add_typed(sub, "--device", request.devices,
            "with --largest: on each of these devices in place of the cluster's: --device rtx-3090,a100-40g-sxm", "NAME,NAME")
      ->delimiter(',');
}

void check_largest_options(const app::LargestRequest& request) {
  if (!request.devices.empty() && request.of.empty())
    throw option_fault("device", "devices are compared by what fits on them, which the option largest asks for",
                       "a step on another device: --set cluster.device=NAME", code::kConflict);
}

int run_largest(const app::LargestRequest& request, const app::LargestSource& source, bool json) {
  const study::LargestAnswer answer =
      app::answer_largest(request, source, [](int value) { show_line(value > 0 ? fmt::format("trying {}", value) : ""); });
  if (json) {
    print(study::to_json(answer));
  } else {
    const Scenario scenario = source.load({});
    std::vector<std::string> varied = {answer.of == study::LargestOf::Micro ? "batch.micro" : "workload.sequence"};
    if (!request.devices.empty()) varied.emplace_back("cluster.device");
    show(present::heading_of_sweep(scenario, make_workload(scenario), varied, answer.searched) +
         study::to_table(answer, style_of_output()));
  }
  return static_cast<int>(answer.any_fits() ? ExitCode::Done : ExitCode::CheckFailed);
}

}  // namespace panpipe::cli
