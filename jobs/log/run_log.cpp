#include "jobs/log/run_log.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace panpipe::jobs {
namespace {

// Ranks write nearly at the same time: lines of another rank are at most so many logged steps away.
constexpr long long kApart = 3;
constexpr double kLongestStep = 1e6;  // seconds: a line that states more is no step

}  // namespace

void RunLog::begin() {
  if (!started_) return;
  close();
}

StatedJob& RunLog::begin_job(std::string_view trainer, long long line) {
  begin();
  StatedJob& job = current_.job;
  job.trainer = trainer, job.text.clear(), job.line = line;
  return job;
}

double RunLog::tokens_per_gpu() const {
  const auto stated = [](auto here, auto known) { return static_cast<double>(here > 0 ? here : known); };
  const StatedJob& job = current_.job;
  const double gpus = stated(job.gpus, known_.gpus);
  return gpus > 0 ? stated(job.batch, known_.batch) * stated(job.sequence, known_.sequence) / gpus : 0;
}

bool RunLog::repeats(const LoggedStep& step) {
  if (!started_) return false;
  if (step.number == current_.last_step) return repeated_ = true;
  const long long apart = step.number - current_.last_step;
  const bool near = std::abs(apart) <= kApart * interval_;
  if (step.rank != rank_) return near;
  return apart < 0 && near && repeated_ && rank_.empty();  // ranks without a mark, not in step with each other
}

double RunLog::seconds_of(const LoggedStep& step) {
  double seconds = step.seconds;
  if (seconds == 0 && started_ && step.stamp_s && stamp_s_)
    seconds = (*step.stamp_s - *stamp_s_) / static_cast<double>(step.number - current_.last_step);
  if (seconds == 0) seconds = step.by_rate_s;
  if (seconds > 0 && seconds < kLongestStep) return seconds;
  if (seconds != 0) impossible_s_ = seconds;
  return 0;
}

// A batch that grows by steps: what was measured before is of other steps than the last ones.
void RunLog::change_batch(long long samples) {
  if (samples == 0 || samples == std::exchange(current_.samples, samples) || times_.empty()) return;
  current_.left_out.other_batch += times_.count() + disturbed_.count() + skipping_.count();
  current_.left_out.evaluation = current_.left_out.checkpoint = current_.left_out.skipped = 0;
  times_ = disturbed_ = skipping_ = {};
}

void RunLog::step(const LoggedStep& step) {
  if (repeats(step)) {
    other_rank();
    return;
  }
  if (started_ && step.number < current_.last_step) {
    StatedJob job = current_.job;  // a restart within one program, or a log of steps alone: the job is as stated before
    close();
    current_.job = std::move(job);
  }
  const double seconds = seconds_of(step);
  change_batch(step.samples);
  if (started_) interval_ = std::max(1LL, step.number - current_.last_step);
  LeftOutSteps& left_out = current_.left_out;
  if (!started_) current_.first_step = step.number;
  ++total_, ++current_.logged;
  if (step.skipped) {
    ++left_out.skipped;
    if (seconds > 0) skipping_.add(seconds);
  } else if (seconds == 0) {
    ++(started_ ? left_out.untimed : left_out.warm_up);  // the first stamp of a run has nothing before it
  } else if (evaluated_ || saved_) {
    ++(saved_ ? left_out.checkpoint : left_out.evaluation);
    disturbed_.add(seconds);
  } else {
    times_.add(seconds);
  }
  if (step.planned > 0) current_.planned_steps = step.planned;
  started_ = true, evaluated_ = saved_ = false;
  current_.last_step = step.number;
  rank_ = step.rank;
  stamp_s_ = step.stamp_s;
}

void RunLog::peak(double bytes, PeakKind kind) {
  if (!(bytes > 0) || !std::isfinite(bytes)) return;
  // What a trainer prints of both is the same kind throughout; allocated depends on the model alone.
  if (current_.peak_kind == PeakKind::Allocated && kind == PeakKind::Reserved) return;
  if (current_.peak_kind != kind) current_.peak_bytes = 0;
  current_.peak_kind = kind;
  current_.peak_bytes = std::max(current_.peak_bytes, bytes);
}

void RunLog::close() {
  ++runs_;
  current_.disturbed = times_.count() <= 1 && !disturbed_.empty();  // the first step of a run is warm-up
  current_.skipping = times_.empty() && disturbed_.empty() && !skipping_.empty();
  current_.measured = (current_.skipping ? skipping_ : current_.disturbed ? disturbed_ : times_).steady_state();
  if (current_.skipping) current_.left_out.skipped = 0;
  if (current_.disturbed) {
    current_.left_out.evaluation = current_.left_out.checkpoint = 0;
    current_.left_out.warm_up += times_.count();
  }
  if (const auto steps = static_cast<double>(current_.measured.steps); steps > 0) {
    const bool others = !current_.skipping && !current_.disturbed;
    current_.mean_s = (current_.measured.mean_s * steps + (others ? disturbed_.sum_s() : 0)) /
                      (steps + (others ? static_cast<double>(disturbed_.count()) : 0));
  }
  current_.left_out.warm_up += current_.measured.warm_up;
  if (summaries_.size() < kMostRuns)
    summaries_.push_back({current_.first_step, current_.last_step, current_.measured.steps, current_.measured.median_s});
  const bool worse = current_.skipping && answer_ && !answer_->skipping;
  const bool chosen = wanted_ == 0 ? current_.measured.steps > 0 && !worse : runs_ == wanted_;
  if (chosen) {
    answer_ = std::move(current_);
    answer_number_ = runs_;
  }
  current_ = {};
  times_ = disturbed_ = skipping_ = {};
  started_ = evaluated_ = saved_ = repeated_ = false;
  interval_ = 1;
  stamp_s_.reset();
}

void RunLog::finish() {
  if (started_) close();
  if (!answer_) return;
  answer_->left_out.other_runs = total_ - answer_->logged;
}

}  // namespace panpipe::jobs
