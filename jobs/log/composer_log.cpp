// What Composer's console logger prints, for llm-foundry: SpeedMonitor and MemoryMonitor of mosaicml/composer.
#include "jobs/log/log_fields.hpp"
#include "jobs/log/log_trainers.hpp"

namespace panpipe::jobs {
namespace {

class ComposerLog : public LogFormat {
 public:
  void read(const LogLine& line, RunLog& log) override {
    const std::string_view text = line.text;
    if (holds(text, "[batch=")) return begin_block(text);
    if (holds(text, "Train ")) return read_value(line, log);
    if (holds(text, "[Eval batch=")) return log.evaluation();
    if (holds(text, "Saving checkpoint")) return log.checkpoint();
    if (holds(text, "num_nodes:")) nodes_ = count_after(text, "num_nodes:", true).value_or(0);
    if (holds(text, "num_gpus_per_node:")) per_node_ = count_after(text, "num_gpus_per_node:", true).value_or(0);
    if (nodes_ > 0 && per_node_ > 0 && nodes_ < 1 << 16 && per_node_ < 1 << 8 && !log.started())
      log.job().gpus = static_cast<int>(nodes_ * per_node_);
  }

 private:
  // "[batch=10/100]:", "[epoch=1][batch=5/20]:"
  void begin_block(std::string_view text) {
    number_ = count_after(text, "[batch=");
    batch_.reset(), samples_.reset();
  }

  // The rate of batches has four digits behind the point, which are few for slow steps: samples a second are exact.
  void read_value(const LogLine& line, RunLog& log) {
    const std::string_view text = line.text;
    // MemoryMonitor's unit are 10^9 bytes.
    if (const auto gigabytes = number_after(text, "memory/peak_allocated_mem:", true))
      return log.peak(*gigabytes * kGigabyte, PeakKind::Allocated);
    if (const auto count = count_after(text, "time/batch:", true)) batch_ = count;
    if (const auto count = count_after(text, "time/sample:", true)) samples_ = count;
    if (holds(text, "/device/")) return;
    if (const auto rate = number_after(text, "throughput/batches_per_sec:", true)) rate_ = *rate;
    const auto samples_rate = number_after(text, "throughput/samples_per_sec:", true);
    if (!samples_rate || !number_) return;
    double seconds = rate_ > 0 ? 1 / rate_ : 0;
    if (batch_ && samples_ && *batch_ > 0 && *samples_rate > 0)
      seconds = static_cast<double>(*samples_) / static_cast<double>(*batch_) / *samples_rate;
    if (batch_ && *batch_ >= 0) number_ = *batch_ + 1;
    log.step({.number = *number_, .seconds = seconds, .stamp_s = stamp_of(line), .rank = line.rank});
    number_.reset();
  }

  std::optional<long long> number_, batch_, samples_;  // of the block
  double rate_ = 0;
  long long nodes_ = 0, per_node_ = 0;
};

}  // namespace

std::unique_ptr<LogFormat> composer_log() { return std::make_unique<ComposerLog>(); }

}  // namespace panpipe::jobs
