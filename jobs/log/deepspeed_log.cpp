// What DeepSpeed's engine prints: ThroughputTimer, the pipeline engine, and the configuration (deepspeedai/DeepSpeed).
#include <utility>

#include "jobs/log/bracketed_job.hpp"
#include "jobs/log/log_fields.hpp"
#include "jobs/log/log_trainers.hpp"

namespace panpipe::jobs {
namespace {

class DeepSpeedLog : public LogFormat {
 public:
  void read(const LogLine& line, RunLog& log) override {
    const std::string_view text = line.text;
    if (holds(text, "SamplesPerSec=")) return read_timer(line, log);
    if (holds(text, "iter time (s):")) return read_pipeline(line, log);
    if (config_.open()) return config_.add(text, log.job());
    if (holds(text, "skipped=")) return read_skipped(text);
    if (holds(text, "json = {")) return begin_config(line, log);
    if (holds(text, "world_size ..")) return read_world(text, log);
    if (holds(text, "Saving model checkpoint") || holds(text, "Saving mp checkpoint") || holds(text, "[Torch] Saving "))
      return log.checkpoint();
    if (holds(text, "Running Evaluation")) log.evaluation();
  }

 private:
  // "epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=...", before 2023 "0/34, SamplesPerSec=...". The rate counts
  // the last microbatch alone in several releases; the stamps of the lines count everything.
  void read_timer(const LogLine& line, RunLog& log) {
    if (by_pipeline_) return;
    auto number = count_after(line.text, "global_step=");
    if (!number && !holds(line.text, "global_step=")) number = number_before_rate(line.text);
    if (!number) return log.cut_line();
    config_.drop();
    log.step({.number = *number, .stamp_s = stamp_of(line), .skipped = std::exchange(skips_, false), .rank = line.rank});
    // Its "GB" are 2^30 bytes.
    if (const auto gib = number_after(line.text, "MaxMemAllocated=")) log.peak(*gib * kGibibyte, PeakKind::Allocated);
  }
  static std::optional<long long> number_before_rate(std::string_view text) {
    std::size_t end = position_in(text, "SamplesPerSec=");
    end = text.rfind(',', end);
    if (end == std::string_view::npos) return std::nullopt;
    const std::size_t slash = text.rfind('/', end);
    return slash == std::string_view::npos ? std::nullopt : count_after(text.substr(slash), "/");
  }

  // "steps: 10 loss: 1.25 iter time (s): 0.512 samples/sec: 62.5"
  void read_pipeline(const LogLine& line, RunLog& log) {
    const auto number = count_after(line.text, "steps:");
    const auto seconds = number_after(line.text, "iter time (s):");
    if (!number || !seconds) return log.cut_line();
    by_pipeline_ = true;
    log.step({.number = *number, .seconds = *seconds, .skipped = std::exchange(skips_, false), .rank = line.rank});
  }

  // "step=40, skipped=2, lr=[...]": of all steps until now.
  void read_skipped(std::string_view text) {
    const auto count = count_after(text, " skipped=");
    if (!count || !holds(text, "step=")) return;
    if (*count > skipped_) skips_ = true;
    skipped_ = *count;
  }

  static void read_world(std::string_view text, RunLog& log) {
    const auto gpus = count_after(text, ".. ", true);
    if (gpus && *gpus > 0 && *gpus < 1 << 24 && !log.started()) log.job().gpus = static_cast<int>(*gpus);
  }

  void begin_config(const LogLine& line, RunLog& log) {
    config_.begin(line.text.substr(position_in(line.text, "json = {") + 7), log.begin_job("deepspeed", line.number));
  }

  BracketedJob config_;
  bool by_pipeline_ = false, skips_ = false;
  long long skipped_ = 0;
};

}  // namespace

std::unique_ptr<LogFormat> deepspeed_log() { return std::make_unique<DeepSpeedLog>(); }

}  // namespace panpipe::jobs
