// panpipe plan: the best cuts, schedule and degrees for a model on a cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "app/plan_question.hpp"
#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/option_fault.hpp"
#include "base/text/quantity_text.hpp"
#include "cli/largest.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/plan_job.hpp"
#include "cli/plan_sizes.hpp"
#include "cli/predict.hpp"
#include "cli/stop_on_signal.hpp"
#include "cli/verbs.hpp"
#include "jobs/import.hpp"
#include "planner/answer_text.hpp"
#include "present/result/heading.hpp"

namespace panpipe::cli {
namespace {

struct PlanOptions : ScenarioOptions {
  std::string output;
  bool json = false, verbose = false;
  double time_limit = 0;
  std::optional<std::size_t> candidates;
  PlannedJob job;
  std::optional<JobScenario> job_scenario;  // of a job in place of a scenario
  app::SearchRequest search;
  app::SizeOptions sizes;
  app::LargestRequest largest;
};

std::string progress_text(const std::string& objective, const planner::SearchState& state) {
  std::string text = fmt::format("evaluated {}  excluded {}", state.evaluated, state.pruned);
  // A figure without a unit has a name.
  const std::string name = objective.ends_with("_s") ? "" : objective + " ";
  if (state.best > 0) text += "  best " + name + planner::objective_text(objective, state.best);
  if (state.lower_bound > 0) text += "  bound " + name + planner::objective_text(objective, state.lower_bound);
  return text;
}

struct LineAtEnd {
  ~LineAtEnd() { show_line(""); }
};

// The best plan that engines can run, as plan.yaml.
void write_plan(const Experiment& experiment, const planner::Answer& answer, const std::string& path) {
  const std::optional<app::PlanFile> plan = app::plan_file_of(answer, experiment);
  if (!plan) throw NoAnswer("no plan was written: the engines can run none of those found; the notes below the answer say why");
  write_file(path, plan->yaml, kAdvice);
  const std::string which =
      plan->candidate == 0 ? "the plan is" : fmt::format("plan {}, the best that the engines can run, is", plan->candidate + 1);
  print_note(fmt::format("panpipe: {} written to {}; estimate, simulate and run take it with --plan\n", which, path));
}

// `found` searches with these options; a line shows how far the search is.
planner::Answer search(const app::SearchRequest& request,
                       const std::function<planner::Answer(const planner::SearchOptions&)>& found) {
  planner::SearchOptions options = app::search_options_of(request);
  options.stop = &stop_requested();
  // Piper counts in the unit of its input.
  const std::string of_piper = request.objective.empty() ? "time_per_sample" : request.objective;
  const std::string objective = options.method == planner::Method::Piper ? of_piper : "step_time_s";
  if (progress_wanted())
    options.progress = [&](const planner::SearchState& state) { show_line(progress_text(objective, state)); };
  const LineAtEnd cleared;
  return found(options);
}

// What the file states stays, which leaves a search little to find for who comes with a whole plan.
std::string kept_note(const app::PlanQuestion& question, const Experiment& experiment, const std::string& scenario) {
  const std::vector<std::string> kept = question.kept(experiment.scenario);
  if (!question.yours() || kept.empty()) return "";
  return fmt::format("  kept as stated: {}; panpipe plan {} --open searches them too\n", fmt::join(kept, ", "), scenario);
}

app::PlanQuestion question_of(const PlanOptions& options) {
  const auto document = [&options] {
    return options.job_scenario ? options.job_scenario->document() : scenario_document(options.scenario);
  };
  return {document, options.job_scenario ? options.job_scenario->name : options.scenario, options.all_overrides(), options.search,
          options.sizes};
}

// The best plan on clusters of several sizes.
int run_plan_sizes(PlanOptions options) {
  options.search.candidates = 1;
  const app::PlanQuestion question = question_of(options);
  const auto found = [&](const Experiment& experiment, const app::SearchRequest& of_step) {
    return search(of_step, [&](const planner::SearchOptions& with) { return question.found(experiment, with); });
  };
  const auto keep = [&](const Experiment& experiment, const planner::Answer& answer, const std::string& size) {
    if (options.output.empty()) return;
    write_plan(experiment, answer, options.output);
    print_note(fmt::format("panpipe: the plan is for this size: give the other verbs {} too\n", size));
  };
  if (!options.output.empty()) check_outputs({options.output}, kAdvice);
  const StopOnSignal stop(options.time_limit);
  return run_sizes(question, found, options.json, keep);
}

// The largest size for which a search finds a plan.
int run_plan_largest(const PlanOptions& options) {
  if (planner::method_named(options.search.method) == planner::Method::Piper)
    throw option_fault("method", "piper plans for the sizes of its problem; auto and pfeife compare sizes", "", code::kConflict);
  if (!options.output.empty())
    throw InputError("-o and --largest exclude each other: no plan is written where a size is asked for",
                     "plan again with the size that is found: --set batch.micro=N", code::kConflict);
  const app::PlanQuestion question = question_of(options);
  const StopOnSignal stop(options.time_limit);
  return run_largest(options.largest, app::largest_plans(question, stop_requested()), options.json);
}

// A job's keys were not written to hold a search, so it is open.
void read_job(PlanOptions& options) {
  if (options.sizes.gpus.size() > 1)
    throw option_fault("gpus", "of a job it is one number, the GPUs that the job has",
                       "to compare sizes, import the job first: panpipe import " + options.search.trainer);
  if (!options.sizes.gpus.empty()) options.job.options.gpus = options.sizes.gpus.front();
  options.sizes.gpus.clear();
  options.search.open = true;
  options.job_scenario = scenario_of_job(options.scenario, options.search.trainer, options.job);
}

int run_plan(PlanOptions options) {
  app::check_search_request(options.search);  // reports an unknown trainer before anything is read
  if (jobs::is_job(options.scenario, options.search.trainer))
    read_job(options);
  else
    refuse_job_options(options.job);
  check_largest_options(options.largest);
  if (!options.largest.of.empty() && app::asks_for_sizes(options.sizes, options.search.objective))
    throw option_fault("largest", "sizes of the cluster and sizes of the step are two questions", "ask one at a time",
                       code::kConflict);
  if (!options.largest.of.empty()) return run_plan_largest(options);
  if (app::asks_for_sizes(options.sizes, options.search.objective)) return run_plan_sizes(options);
  const app::PlanQuestion question = question_of(options);
  const Experiment experiment(question.searched());
  if (!options.output.empty()) check_outputs({options.output}, kAdvice);
  report_cores(experiment.scenario, experiment.scenario.degrees.pipeline);
  const StopOnSignal stop(options.time_limit);
  planner::Answer answer =
      search(options.search, [&](const planner::SearchOptions& with) { return question.answer(experiment, with); });
  app::add_assumptions(answer, experiment);
  if (options.json)
    print(to_json(answer));
  else
    show(
        present::heading_of_search(experiment.scenario, experiment.workload) +
        (options.verbose ? to_table(answer, style_of_output(), mean_tokens(experiment)) : to_summary(answer, style_of_output())) +
        kept_note(question, experiment, options.scenario));
  if (answer.candidates.empty()) return static_cast<int>(ExitCode::CheckFailed);
  if (!options.output.empty()) write_plan(experiment, answer, options.output);
  if (!options.output.empty() && options.job_scenario)
    print_note(export_note(options.scenario, options.search.trainer, options.job, options.output));
  return static_cast<int>(ExitCode::Done);
}

}  // namespace

void add_plan_verb(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<PlanOptions>();
  add_scenario_options(sub, *options);
  add_evidence_option(sub, *options);
  sub.get_option("SCENARIO")->description("scenario file (YAML), or with --for the trainer's job, as panpipe import takes it");
  add_typed(sub, "--for", options->search.trainer,
            "the trainer: only what it can run, priced as it runs it, so that the plan can be exported; `panpipe list trainers`",
            "TRAINER");
  sub.add_flag(
      "--open", options->search.open,
      "also search what the scenario's file states of a plan (degrees, microbatch, schedule, recompute, cuts, placement); "
      "the samples of a step and keys of --set stay");
  add_typed(sub, "--method", options->search.method,
            "auto (default): every degree and schedule; pfeife: cuts and schedule together; piper: degrees per stage, exact",
            "auto|pfeife|piper");
  add_typed(sub, "--objective", options->search.objective,
            "step (default), cost or energy: the last two compare sizes of the cluster; with --method piper: time_per_sample "
            "(default; the slowest stage) or step (with fill, drain and optimizer state)",
            "step|cost|energy|time_per_sample");
  add_size_options(sub, options->sizes);
  add_largest_options(sub, options->largest);
  add_typed(sub, "-o", options->output, "write the best plan into this file, for --plan of the other verbs", "FILE");
  sub.add_flag("--json", options->json, "print the answer as a document");
  sub.add_flag("--verbose", options->verbose, "also the stages, both figures of every plan, and what was searched");
  add_number(sub, "--threads", options->search.threads, "threads to search with (default: all cores)", 1, 1024);
  add_typed(sub, "--time-limit", options->time_limit, "stop after so many seconds with the best plan so far", "S")
      ->check([](const std::string& text) {
        const auto seconds = parse_number(text).value;
        return seconds && *seconds > 0 ? std::string() : fmt::format("'{}' is not a number of seconds above 0", text);
      });
  add_number(sub, "--candidates", options->candidates,
             "how many of the best plans to show (default 3; 5 with --json or --verbose)", 1, 1000);
  add_planned_job_options(sub, options->job);
  run = [options] {
    constexpr std::size_t kInShort = 3;
    if (options->candidates)
      options->search.candidates = *options->candidates;
    else if (!options->json && !options->verbose)
      options->search.candidates = kInShort;
    return run_plan(*options);
  };
}

}  // namespace panpipe::cli
