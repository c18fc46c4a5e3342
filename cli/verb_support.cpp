// panpipe support: what of a scenario was ever compared with measured runs, and how sure its prediction therefore is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "app/evidence/read_evidence.hpp"
#include "app/support.hpp"
#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "cli/verbs.hpp"
#include "costmodel/prediction/support.hpp"
#include "present/result/heading.hpp"

namespace panpipe::cli {
namespace {

std::string parts_text(const Support& support, const TextStyle& style) {
  TextTable table({"<compared were", "<", "runs", "sources", "mean error", "worst"});
  for (const SupportedPart& part : support.parts) {
    if (part.runs == 0)
      table.row({part.what, part.value, "0", "0", "-", "-"});
    else
      table.row({part.what, part.value, std::to_string(part.runs), std::to_string(part.sources), percent(part.mean_error),
                 signed_percent(part.worst_error)});
  }
  return table.text(style);
}

// "calibration of A100-80G-SXM (a100-80g-sxm): fitted gemm_efficiency, launch; measured ...; inferred ..."
std::string device_text(const SupportedDevice& device) {
  std::string text = fmt::format("  numbers of {} ({}):", device.device, device.calibration);
  if (device.numbers.empty()) return text + " its data sheet alone\n";
  for (const NumberOrigin origin : {NumberOrigin::Fitted, NumberOrigin::Measured, NumberOrigin::Inferred}) {
    std::vector<std::string> keys;
    for (const SupportedNumber& number : device.numbers)
      if (number.origin == origin) keys.push_back(number.key);
    if (!keys.empty()) text += fmt::format("\n    {}: {}", name_of(origin), fmt::join(keys, ", "));
  }
  return text + "\n";
}

std::string support_text(const Support& support, const Metrics& figures, const TextStyle& style) {
  std::string out = style.paint(kBold, fmt::format("step {}", to_text(Duration(figures.step_time_s)))) + "\n";
  if (figures.step_time_p90_s > 0)
    out += "  " + sureness_text(figures.step_time_p10_s, figures.step_time_p50_s, figures.step_time_p90_s, figures.evidence) +
           "\n" + evidence_text(figures.step_time_p50_s, figures.evidence);
  out += parts_text(support, style);
  for (const SupportedDevice& device : support.devices) out += device_text(device);
  for (const std::string& what : support.never_compared) out += style.paint(kYellow, "  never compared: " + what) + "\n";
  return wrapped(out, style.width);
}

}  // namespace

void add_support_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings : ScenarioOptions {
    bool json = false;
  };
  auto options = std::make_shared<Settings>();
  add_scenario_options(sub, *options);
  add_evidence_option(sub, *options);
  add_plan_option(sub, *options);
  sub.add_flag("--json", options->json, "print the document panpipe-support/1");
  run = [options] {
    const Experiment experiment(app::with_evidence(options->load()));
    const Plan plan = experiment.plan(options->plan);
    const Prediction prediction = predict(experiment, plan);
    const Support support = support_of(experiment.scenario, prediction.traits, shipped_evidence());
    if (options->json) {
      print(app::to_json(support, prediction.metrics));
      return 0;
    }
    const TextStyle style = style_of_output();
    print(wrapped(present::heading_of(experiment.scenario, experiment.workload, plan), style.width) +
          support_text(support, prediction.metrics, style));
    return 0;
  };
}

}  // namespace panpipe::cli
