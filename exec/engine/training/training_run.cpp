#include "exec/engine/training/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "exec/engine/checkpoint/checkpoint.hpp"
#include "exec/engine/measure/gathered.hpp"
#include "exec/engine/run/deadline.hpp"
#include "exec/engine/run/stop.hpp"
#include "exec/engine/weights/model_folder.hpp"
#include "exec/launch/checkpoint_folder.hpp"
#include "exec/launch/launch.hpp"
#include "schedule/rolling.hpp"

namespace panpipe::exec {
namespace {

// Rank 0 of panpipe run, between steps.
void report_launcher(char mark) {
  static const bool launched = std::getenv(kLaunchedVariable) != nullptr;
  if (launched) std::fputs((std::string(1, mark) + "\n").c_str(), stderr);
}

void print_note(const std::string& sentence) { std::fputs(fmt::format("panpipe: {}\n", sentence).c_str(), stderr); }

}  // namespace

void check_training(const PreparedRun& run) {
  const Scenario& scenario = run.experiment.scenario;
  const bool pure = scenario.precision == Precision::Bf16Pure || scenario.precision == Precision::Fp16Pure;
  for (const Tensor& tensor : run.graph().tensors)
    if (pure && tensor.role == TensorRole::Parameter && tensor.dtype == DType::Float32)
      throw fault_at(
          scenario, "precision",
          fmt::format("the exported model keeps '{}' in float32, and its operators expect that", tensor.name),
          fmt::format("export it in {}, or train it in mixed precision: {}", name_of(compute_dtype(scenario.precision)),
                      scenario.precision == Precision::Bf16Pure ? "bf16" : "fp16"));
  parameter_numbers(run.graph(), scenario);
  if (!run.request.export_folder.empty()) check_exported_model(scenario);
  if (run.request.checkpoint.empty() && run.request.checkpoint_every > 0)
    throw InputError("--checkpoint-every needs --checkpoint DIR");
  if (run.request.checkpoint.empty() && run.request.resume == "auto")
    throw InputError("--resume auto looks into the folder of checkpoints: give --checkpoint DIR too");
}

TrainingRun::TrainingRun(const PreparedRun& run, Transport& transport)
    : run_(run), transport_(transport), deadline_(deadline_of(run.request)) {
  const RunRequest& request = run.request;
  const bool first = transport.rank() == 0;
  if (first && !request.checkpoint.empty()) remove_unfinished(request.checkpoint);
  std::string folder;
  std::vector<std::string> passed_over;
  if (!request.resume.empty()) folder = find_checkpoint(transport, request.resume, request.checkpoint, deadline_, passed_over);
  for (const std::string& why : passed_over) print_note("passing over " + why);
  TrainingPosition start;
  Manifest manifest;
  if (!folder.empty()) {
    manifest = read_manifest(folder);
    check_manifest(manifest, folder, run);
    start = manifest.position;
    if (const int last = request.warmup + request.steps; start.step >= last)
      throw InputError(
          fmt::format("checkpoint {}: it is at step {} already, and the run ends with step {}; --steps counts from the "
                      "run's beginning",
                      folder, start.step, last));
  }
  trainer_ = std::make_unique<Trainer>(run, transport, start);
  if (rolling_of(run.plan.schedule) != Rolling::None) reports_ = std::make_unique<LaggingReports>(transport, deadline_);
  if (!folder.empty()) load_checkpoint(*trainer_, manifest, folder);
  step_ = last_checkpoint_ = start.step;
  if (folder.empty()) last_checkpoint_ = -1;
  if (!first) return;
  if (!request.resume.empty()) report_start(folder, !passed_over.empty());
  if (!folder.empty())
    for (const std::string& change : changes_since(manifest, run)) print_note(change);
  log_ = std::make_unique<MetricsLog>(run, step_);
}

// Rank 0: where training starts.
void TrainingRun::report_start(const std::string& folder, bool some_passed_over) const {
  const std::string& directory = run_.request.checkpoint;
  if (folder.empty())
    return print_note(
        fmt::format("no {}checkpoint in {}: training starts at step 1", some_passed_over ? "whole " : "", directory));
  print_note(fmt::format("resumed from {}: training goes on at step {}", folder, step_ + 1));
  // With auto these are the ones passed over.
  if (const auto all = checkpoints_in(directory); run_.request.resume != "auto" && !all.empty() && step_of(all.front()) > step_)
    print_note(fmt::format(
        "{} holds later checkpoints, up to {}: when this run writes its first, they are renamed to step-....abandoned", directory,
        all.front().filename().string()));
}

StepReport TrainingRun::own_report() const {
  return {step_, stop_requested(), loss_sum_, trainer_->notes().squared_norm, seconds_, trainer_->notes(), trainer_->epoch()};
}

// Returns whether somebody wants to stop.
bool TrainingRun::synchronise() {
  const StepReport mine = own_report();
  const StepReport all = mine.of_all(gathered(transport_, mine.numbers(), deadline_, "the start of a step"));
  if (stepped_ && log_) unreported_.push_back(all);
  return all.stop;
}

// Every rank takes the reports of the same steps at the same step, so that all learn of a stop together.
void TrainingRun::take_reports(std::size_t pending) {
  for (const StepReport& all : reports_->take(pending)) {
    stop_ |= all.stop;
    if (log_) unreported_.push_back(all);
  }
}

// True if ranks meet behind this step: passes of the next one do not begin before.
bool TrainingRun::ends_after(std::int64_t step) const {
  const auto due = [&](int every) { return every > 0 && step % every == 0; };
  return !reports_ || stop_ || step >= run_.request.warmup + run_.request.steps ||
         (!run_.request.checkpoint.empty() && due(run_.request.checkpoint_every)) ||
         due(run_.experiment.scenario.training.evaluate_every);
}

// All ranks: the loss of held-out data, reported together with the last step.
void TrainingRun::evaluate() {
  const std::int64_t steps = trainer_->evaluation_steps();
  const double mine = trainer_->evaluate(steps);
  double sum = 0;
  for (const double own : gathered(transport_, mine, deadline_, "the end of an evaluation")) sum += own;
  const double loss = sum / (static_cast<double>(steps) * run_.layout.microbatches * run_.plan.data);
  if (!unreported_.empty()) unreported_.back().validation_loss = loss;
}

void TrainingRun::report() {
  for (const StepReport& step : unreported_) log_->write(step);
  unreported_.clear();
}

std::string TrainingRun::checkpoint() {
  if (transport_.rank() == 0) report_launcher(kWritingMark);
  return write_checkpoint(*trainer_, run_.request.checkpoint, run_.experiment.scenario.training.keep_checkpoints,
                          std::exchange(last_checkpoint_, step_));
}

bool TrainingRun::next() {
  if (reports_) take_reports(idle_ ? 0 : 1);
  if (!idle_) {
    if (transport_.rank() == 0) report_launcher(kStepMark);
    return true;
  }
  const bool stop = synchronise();
  const bool done = step_ >= run_.request.warmup + run_.request.steps;
  const bool writes = !run_.request.checkpoint.empty() && last_checkpoint_ != step_;
  const int every = run_.experiment.scenario.training.evaluate_every;
  if (stepped_ && every > 0 && step_ % every == 0 && (done || !stop)) evaluate();
  if (done || stop) {
    report();
    const std::string folder = writes && stepped_ ? checkpoint() : "";
    if (done) {
      if (!run_.request.export_folder.empty()) write_model_folder(*trainer_, run_.request.export_folder);
      return false;
    }
    throw Stopped(fmt::format("stopped after step {} as asked{}", step_,
                              folder.empty() ? "; no checkpoint was written" : "; checkpoint: " + folder));
  }
  if (writes && stepped_ && run_.request.checkpoint_every > 0 && step_ % run_.request.checkpoint_every == 0) {
    report();  // first: a run resumed from the checkpoint does not train this step again, and nobody would report it
    checkpoint();
    transport_.barrier(deadline_, "the start of a step");
  }
  if (transport_.rank() == 0) report_launcher(kStepMark);
  return true;
}

StepResult TrainingRun::step() {
  const Clock::time_point began = std::exchange(ended_, {});
  const bool rolled = !idle_;
  idle_ = ends_after(step_ + 1);
  StepResult result = trainer_->step(step_, idle_);
  if (rolled) reports_->set_skipped(trainer_->skipped_before());
  ++step_;
  stepped_ = true;
  loss_sum_ = result.loss_sum;
  ended_ = Clock::now();
  seconds_ = std::chrono::duration<double>(ended_ - (rolled ? began : result.started)).count();
  if (!idle_) reports_->post(own_report());
  report();  // of the step before: now nobody waits for this rank
  return result;
}

}  // namespace panpipe::exec
