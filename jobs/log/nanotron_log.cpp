// What nanotron prints: train_step_logs() and the configuration, from huggingface/nanotron's trainer.
#include "jobs/log/bracketed_job.hpp"
#include "jobs/log/log_fields.hpp"
#include "jobs/log/log_trainers.hpp"

namespace panpipe::jobs {
namespace {

// "08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0|node-1]: iteration: ...": who wrote it, and what follows.
LogLine of_logger(const LogLine& line) {
  const std::size_t from = position_in(line.text, "|DP=");
  if (from == std::string_view::npos) return line;
  const std::size_t to = line.text.find("]:", from);
  if (to == std::string_view::npos) return line;
  std::string_view rest = line.text.substr(to + 2);
  if (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  return {rest, line.text.substr(from + 1, to - from - 1), line.stamp, line.number};
}

class NanotronLog : public LogFormat {
 public:
  void read(const LogLine& raw, RunLog& log) override {
    if (holds(raw.text, "elapsed_time_per_iteration_ms:")) return read_step(of_logger(raw), log);
    if (config_.open()) return config_.add(of_logger(raw).text, log.job());
    if (holds(raw.text, "Peak allocated")) return read_memory(raw.text, log);
    if (holds(raw.text, "Config(general=")) return begin_config(of_logger(raw), log);
    if (holds(raw.text, "Saving checkpoint at")) return log.checkpoint();
    if (holds(raw.text, "[Start training]")) read_start(raw.text, log);
  }

 private:
  void read_step(const LogLine& line, RunLog& log) {
    const auto number = count_after(line.text, "iteration:");
    const auto milliseconds = short_number_after(line.text, "elapsed_time_per_iteration_ms:");
    if (!number || !milliseconds) return log.cut_line();
    config_.drop();
    const std::string_view counts = after(line.text, "iteration:");
    log.step({.number = *number,
              .seconds = *milliseconds * 1e-3,
              .planned = count_after(counts.substr(0, counts.find('|')), "/", true).value_or(0),
              .rank = line.rank});
  }

  static void read_memory(std::string_view text, RunLog& log) {
    // "Peak allocated 309.29MiB." and "Peak allocated: 0.06MiB"
    std::string_view value = after(text, "Peak allocated");
    if (!value.empty() && value[0] == ':') value = after(value, ":");
    const auto number = number_at(value);
    if (number && holds(value.substr(0, 40), "MiB")) log.peak(*number * kMebibyte, PeakKind::Allocated);
  }

  static void read_start(std::string_view text, RunLog& log) {
    if (const auto batch = count_after(text, "global_batch_size:")) log.job().batch = *batch;
    if (const auto sequence = count_after(text, "sequence_length:")) log.job().sequence = *sequence;
  }

  void begin_config(const LogLine& line, RunLog& log) {
    config_.begin(line.text.substr(position_in(line.text, "Config(general=")), log.begin_job("nanotron", line.number));
  }

  BracketedJob config_;
};

}  // namespace

std::unique_ptr<LogFormat> nanotron_log() { return std::make_unique<NanotronLog>(); }

}  // namespace panpipe::jobs
