#include "cli/predict.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/step_notes.hpp"
#include "base/error.hpp"
#include "base/input/scalar_text.hpp"
#include "cli/build_info.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "costmodel/cost/shared_cores.hpp"
#include "present/result/result_files.hpp"

namespace panpipe::cli {

void add_scenario_options(CLI::App& sub, ScenarioOptions& options) {
  sub.add_option("SCENARIO", options.scenario, "scenario file (YAML)")->required();
  add_repeatable(sub, "--set", options.overrides, "override a key: --set batch.micro=4 (repeatable)", "KEY=VALUE");
}

void add_beside_options(CLI::App& sub, BesideOptions& options, const std::string& rank) {
  add_typed(sub, "--scenario", options.scenario, "predict this scenario beside what was measured", "SCENARIO");
  add_repeatable(sub, "--set", options.overrides, "override a key of the scenario: KEY=VALUE (repeat)", "KEY=VALUE");
  add_typed(sub, "--plan", options.plan, "predict this plan of it", "PLAN");
  add_number(sub, "--rank", options.rank, rank, 0, 1 << 20);
}

bool BesideOptions::wanted() const {
  if (scenario.empty() && (!overrides.empty() || !plan.empty() || rank))
    throw InputError("--set, --plan and --rank go with --scenario: they state what is predicted");
  return !scenario.empty();
}

void add_evidence_option(CLI::App& sub, ScenarioOptions& options) {
  add_repeatable(sub, "--evidence", options.evidence,
                 "a measurement of this machine and trainer, which narrows the interval: a log, a table of runs (repeatable)",
                 "FILE");
}

void add_evidence(const std::vector<std::string>& files, std::vector<std::string>& overrides) {
  for (const std::string& file : files) overrides.push_back("evidence+=" + quoted_scalar(file));
}

std::vector<std::string> ScenarioOptions::all_overrides() const {
  std::vector<std::string> all = overrides;
  add_evidence(evidence, all);
  return all;
}

void add_plan_option(CLI::App& sub, ScenarioOptions& options) {
  add_typed(sub, "--plan", options.plan, "take partition, placement and schedule from a plan file", "FILE");
}

void add_predict_options(CLI::App& sub, PredictOptions& options) {
  add_scenario_options(sub, options);
  add_evidence_option(sub, options);
  add_plan_option(sub, options);
  add_typed(sub, "-o", options.output,
            "write result.json, trace.json, scenario.yaml, plan.yaml, report.txt and schedule.svg into this folder", "DIR");
  sub.add_flag("--json", options.json, "print the result document instead of the table");
  sub.add_flag("--timeline", options.timeline, "with --json: include every span");
  sub.add_flag(
      "--all-spans", options.all_spans,
      fmt::format("with -o: write trace.json and every span also of a step with more than {} spans", present::kMostSpans));
}

namespace {

// A profile that does not hold every unit leaves the rest to formulas: reported, so that nobody takes all times for measured.
void report_unmeasured(const Experiment& experiment) {
  if (!experiment.scenario.profile || experiment.scenario.cluster.devices.empty()) return;
  const WorkloadCost& cost = experiment.model.units(experiment.scenario.cluster.devices.front().type);
  if (cost.unmeasured.empty()) return;
  print_note(fmt::format("panpipe: the profile knows {} of {} units; formulas stand in for {}{}\n",
                         cost.units.size() - cost.unmeasured.size(), cost.units.size(), cost.unmeasured.front(),
                         cost.unmeasured.size() > 1 ? fmt::format(" and {} more", cost.unmeasured.size() - 1) : std::string()));
}

}  // namespace

void report_cores(const Scenario& scenario, int pipeline) {
  if (const std::string text = reported_cores(scenario, pipeline); !text.empty()) print_note("panpipe: " + text + "\n");
}

std::shared_ptr<const app::PlannedScenario> planned_scenario(const PredictOptions& options) {
  auto planned = app::plan_scenario(
      options.scenario, [&] { return options.load(); }, options.plan);
  if (!options.output.empty()) present::check_result_files(options.output);
  return planned;
}

void present(const app::PredictedStep& step, const PredictOptions& options, const std::string& notes) {
  const Experiment& experiment = step.planned().experiment;
  const Plan& plan = step.planned().plan;
  const present::ResultContext context = step.context(libraries());
  std::string all_notes;
  for (const std::string& note : app::step_notes(step)) all_notes += note + "\n";
  all_notes += notes;
  report_unmeasured(experiment);
  report_cores(experiment.scenario, plan.pipeline);
  if (options.json) {
    print(step.document(libraries(), options.timeline));
  } else {
    const TextStyle style = style_of_output();
    print(step.text(style) + wrapped(all_notes, style.width));
  }
  if (options.output.empty()) return;
  print_note(
      write_results(experiment, plan, step.timeline(), step.metrics(), context, all_notes, options.output, options.all_spans));
}

}  // namespace panpipe::cli
