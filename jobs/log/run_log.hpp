// What the lines of one trainer report, collected run by run in constant memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/log/step_times.hpp"

namespace panpipe::jobs {

struct LoggedStep {
  long long number = 0;
  double seconds = 0;                  // of a step; 0: the line does not state it
  double by_rate_s = 0;                // of a step, by a rate; counts where stamps are missing
  std::optional<double> stamp_s = {};  // when the line was written, if stated at least to the millisecond
  long long samples = 0;               // of the step; 0: the line does not state them
  long long planned = 0;               // steps of the whole run; 0: the line does not state them
  bool skipped = false;                // steps since the last line were skipped (loss scale)
  std::string_view rank = {};          // who wrote it; empty: not stated
};

// Logged steps that are not part of the measured step, by reason; lines that were not read.
struct LeftOutSteps {
  long long warm_up = 0, evaluation = 0, checkpoint = 0, skipped = 0, untimed = 0;
  long long other_batch = 0;  // of fewer or more samples than the last steps
  long long other_runs = 0;
  long long other_ranks = 0, cut_lines = 0;  // lines
};

// How the job was stated.
struct StatedJob {
  std::string trainer;                // whose importer reads the text: "megatron-core"; empty with no text
  std::string text;                   // as printed: arguments, Python, JSON; empty: the log states no job
  long long line = 0;                 // where it begins
  int gpus = 0;                       // 0: not stated
  long long batch = 0, sequence = 0;  // samples of a step, tokens of a sample; 0: not stated
};

// When a line was written, by its clock: seconds since 1970 as if it were UTC.
struct LogClock {
  double seconds = 0;
  bool utc = false;  // as it states
};

enum class PeakKind { None, Allocated, Reserved };
inline std::string_view name_of(PeakKind kind) { return kind == PeakKind::Allocated ? "allocated" : "reserved"; }

struct LoggedRun {
  long long first_step = 0, last_step = 0, logged = 0;  // `logged`: number of logged steps
  SteadyState measured;
  double mean_s = 0;            // of measured steps and those with an evaluation or a checkpoint
  long long samples = 0;        // of the steps, as their lines state them; 0: not stated
  long long planned_steps = 0;  // of the whole run; 0: not stated
  std::optional<LogClock> end;  // when the last step was written
  double peak_bytes = 0;
  PeakKind peak_kind = PeakKind::None;
  LeftOutSteps left_out;
  bool disturbed = false;  // all logged steps hold an evaluation or a checkpoint, and these count
  bool skipping = false;   // all logged steps skipped their update, and these count
  StatedJob job;
};

// What a scenario of the job states, where the log does not.
struct JobSize {
  int gpus = 0;
  long long batch = 0, sequence = 0;
};

struct RunSummary {
  long long first_step = 0, last_step = 0, steps = 0;
  double median_s = 0;
};

class RunLog {
 public:
  static constexpr std::size_t kMostRuns = 1000;                        // that are listed
  static constexpr std::size_t kMostText = (std::size_t{1} << 20) - 1;  // of a stated job

  // `wanted`: the number of the run to answer with, from 1; 0: the last one with a measured step.
  explicit RunLog(int wanted, const JobSize& known = {}) : wanted_(wanted), known_(known) {}

  // A new run begins here: the job is stated again, or the trainer reports its start. Without a step since the last call it goes
  // on with the same run.
  void begin();
  // A run begins, and the lines from `line` on state its job.
  StatedJob& begin_job(std::string_view trainer, long long line);
  // A step number that goes back begins a run, too. The same step from several ranks counts once: as the first rank reports it.
  void step(const LoggedStep& step);
  void written(const std::optional<LogClock>& when) { current_.end = when; }  // the line of the last step
  void evaluation() {
    if (started_) evaluated_ = true;
  }
  void checkpoint() {
    if (started_) saved_ = true;
  }
  void cut_line() { ++current_.left_out.cut_lines; }
  void other_rank() { ++current_.left_out.other_ranks; }
  void peak(double bytes, PeakKind kind);  // the largest of all ranks
  StatedJob& job() { return current_.job; }
  bool started() const { return started_; }  // the current run has steps
  double tokens_per_gpu() const;             // of a step; 0: not known

  void finish();                              // call it at the end of the log
  long long steps() const { return total_; }  // logged, in all runs
  long long runs() const { return runs_; }
  std::optional<double> impossible_s() const { return impossible_s_; }  // that a line stated last as the time of a step
  const std::vector<RunSummary>& summaries() const { return summaries_; }
  const std::optional<LoggedRun>& answer() const { return answer_; }
  long long answer_number() const { return answer_number_; }

 private:
  bool repeats(const LoggedStep& step);
  double seconds_of(const LoggedStep& step);
  void change_batch(long long samples);
  void close();

  int wanted_;
  JobSize known_;
  LoggedRun current_;
  StepTimes times_, disturbed_, skipping_;
  bool started_ = false, evaluated_ = false, saved_ = false, repeated_ = false;
  long long interval_ = 1;  // of the last two logged steps
  std::string rank_;        // whose lines count
  std::optional<double> stamp_s_, impossible_s_;
  std::vector<RunSummary> summaries_;
  std::optional<LoggedRun> answer_;
  long long runs_ = 0, total_ = 0, answer_number_ = 0;
};

}  // namespace panpipe::jobs
