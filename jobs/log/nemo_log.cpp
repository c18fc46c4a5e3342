// What NeMo prints: the progress of NeMo 2 line by line (nemo/lightning/pytorch/callbacks/progress_printer.py), and Lightning's
// bar of NeMo 1 (NVIDIA/NeMo).
#include "jobs/log/log_fields.hpp"
#include "jobs/log/log_trainers.hpp"

namespace panpipe::jobs {
namespace {

class NemoLog : public LogFormat {
 public:
  void read(const LogLine& line, RunLog& log) override {
    const std::string_view text = line.text;
    if (holds(text, "train_step_timing in s")) return read_step(line, log);
    if (holds(text, "reduced_train_loss=")) return read_bar(line, log, 0);
    if (holds(text, "Validation: iteration") || holds(text, "Validation DataLoader")) return log.evaluation();
    if (holds(text, "Async checkpoint save for step") || holds(text, "Scheduled async checkpoint save")) log.checkpoint();
  }

 private:
  // "Training epoch 0, iteration 1/249 | ... | global_step: 1 | ... | train_step_timing in s: 2.505 | consumed_samples: 16"
  void read_step(const LogLine& line, RunLog& log) {
    if (const auto seconds = number_after(line.text, "train_step_timing in s=")) return read_bar(line, log, *seconds);
    const auto seconds = number_after(line.text, "train_step_timing in s:", true);
    const auto number = count_after(line.text, "global_step:");
    if (!number || !seconds) return;
    log.step({.number = *number, .seconds = *seconds, .rank = line.rank});
    if (const auto batch = count_after(line.text, "global_batch_size:")) log.job().batch = *batch;
  }

  // "Epoch 0: : 100%|####| 50/50 [31:51<00:00, reduced_train_loss=6.130, global_step=50.0, train_step_timing in s=5.900]". Older
  // releases print no time but the bar's: "[9:07:58<878:01:48, 41.36s/it, loss=3.1, ...". `global_step` has three digits.
  void read_bar(const LogLine& line, RunLog& log, double seconds) {
    const std::size_t bar = line.text.rfind("| ", line.text.find(" ["));
    if (bar == std::string_view::npos) return;
    const auto number = count_after(line.text.substr(bar), "|");
    if (!number || *number == 0) return;
    const std::string_view rate = after(line.text.substr(bar), ",");
    if (const auto shown = number_at(rate); seconds == 0 && shown && *shown > 0)
      seconds = holds(rate.substr(0, 16), "s/it") ? *shown : holds(rate.substr(0, 16), "it/s") ? 1 / *shown : 0;
    if (*number == number_) return;  // drawn again
    number_ = *number;
    log.step({.number = *number, .seconds = seconds, .rank = line.rank});
  }

  long long number_ = 0;  // of the bar
};

}  // namespace

std::unique_ptr<LogFormat> nemo_log() { return std::make_unique<NemoLog>(); }

}  // namespace panpipe::jobs
