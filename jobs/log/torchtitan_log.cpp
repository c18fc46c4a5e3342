// What torchtitan prints: components/metrics.py and train.py of pytorch/torchtitan, releases of 2024 to 2026.
#include <algorithm>

#include "jobs/log/bracketed_job.hpp"
#include "jobs/log/log_fields.hpp"
#include "jobs/log/log_trainers.hpp"

namespace panpipe::jobs {
namespace {

constexpr long long kMostGpus = 1 << 24;

class TorchtitanLog : public LogFormat {
 public:
  void read(const LogLine& line, RunLog& log) override {
    if (holds(line.text, "validate step:")) return log.evaluation();
    if (holds(line.text, "step:")) return read_step(line, log);
    if (config_.open()) return read_config(line.text, log);
    if (holds(line.text, "device mesh with")) return read_mesh(line.text, log);
    if (holds(line.text, "global batch size")) return read_batch(line.text, log);
    if (holds(line.text, "aving the checkpoint") || holds(line.text, "aving a full checkpoint")) return log.checkpoint();
    if (holds(line.text, "Running with args:") || holds(line.text, "Running with configs:")) return begin_config(line, log);
    if (holds(line.text, "Starting job:")) log.begin();
  }

 private:
  // The stamps give the time of a step. Without them the rate of tokens on a GPU does, a mean over the same time.
  void read_step(const LogLine& line, RunLog& log) {
    auto rate = number_after(line.text, " tps:");
    if (!rate) rate = number_after(line.text, " wps:");
    const auto number = count_after(line.text, "step:");
    if (!number || !rate) {
      if (number && holds(line.text, " memory:") && holds(line.text, "GiB(")) log.cut_line();
      return;
    }
    config_.drop();
    log.step({.number = *number,
              .by_rate_s = *rate > 0 ? log.tokens_per_gpu() / *rate : 0,
              .stamp_s = stamp_of(line),
              .planned = planned_,
              .rank = line.rank});
    if (const auto gib = number_after(line.text, " memory:")) log.peak(*gib * kGibibyte, PeakKind::Reserved);
  }

  // "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]", "... with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1,
  // tp=1".
  static void read_mesh(std::string_view text, RunLog& log) {
    if (log.started()) return;
    long long gpus = 1;
    if (const std::string_view sizes = after(text, "], ["); !sizes.empty()) {
      for (std::string_view rest = sizes; !rest.empty() && gpus <= kMostGpus;) {
        const auto size = number_at(rest);
        if (!size) return;
        gpus *= static_cast<long long>(*size);
        const std::size_t comma = rest.find(", ");
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 2);
      }
    } else {
      for (const char* degree : {" pp=", "dp_replicate=", "dp_shard=", " cp=", " tp="})
        if (const auto size = count_after(text, degree, true); size && *size <= kMostGpus && gpus <= kMostGpus)
          gpus *= std::max(1LL, *size);
    }
    if (gpus >= 1 && gpus <= kMostGpus) log.job().gpus = static_cast<int>(gpus);
  }

  static void read_batch(std::string_view text, RunLog& log) {
    if (log.started()) return;
    if (const auto batch = count_after(text, "global batch size")) log.job().batch = *batch;
    if (const auto sequence = count_after(text, "sequence length")) log.job().sequence = *sequence;
  }

  void read_config(std::string_view text, RunLog& log) {
    config_.add(text, log.job());
    if (!config_.open()) planned_ = count_after(after(log.job().text, "\"training\""), "\"steps\":").value_or(0);
  }

  void begin_config(const LogLine& line, RunLog& log) {
    const std::size_t brace = line.text.find('{');
    config_.begin(brace == std::string_view::npos ? std::string_view() : line.text.substr(brace),
                  log.begin_job("torchtitan", line.number));
  }

  BracketedJob config_;
  long long planned_ = 0;
};

}  // namespace

std::unique_ptr<LogFormat> torchtitan_log() { return std::make_unique<TorchtitanLog>(); }

}  // namespace panpipe::jobs
