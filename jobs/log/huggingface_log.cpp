// What Hugging Face's Trainer prints: its progress bar (tqdm), its heading, and its closing line (huggingface/transformers).
#include <algorithm>
#include <cctype>

#include "jobs/log/log_fields.hpp"
#include "jobs/log/log_trainers.hpp"
#include "jobs/log/smoothed_bar.hpp"

namespace panpipe::jobs {
namespace {

// " 51%|#####     | 507/1000 [15:32<16:42,  2.03s/it]"
struct Bar {
  long long number = 0, total = 0;
  double seconds = 0;  // of a step, as the bar shows it
};

std::optional<Bar> bar_of(std::string_view text) {
  const std::size_t percent = text.find("%|");
  if (percent == std::string_view::npos) return std::nullopt;
  // Bars with a description are of downloads, datasets, checkpoints.
  for (const char c : text.substr(0, percent))
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 && c != ' ') return std::nullopt;
  const std::size_t middle = text.find("| ", percent + 2), open = text.find(" [", percent);
  if (middle == std::string_view::npos || open == std::string_view::npos) return std::nullopt;
  const std::string_view counts = text.substr(middle + 1, open + 1 - middle - 1);
  const std::string_view times = text.substr(open);
  Bar bar;
  const auto number = count_after(counts, ""), total = count_after(counts, "/");
  const std::string_view rate = after(times, ",");
  const auto value = number_at(rate);
  if (!number || !total || !value || *value <= 0) return std::nullopt;
  bar.number = *number, bar.total = *total;
  if (holds(rate, "s/it"))
    bar.seconds = *value;
  else if (holds(rate, "it/s"))
    bar.seconds = 1 / *value;
  else
    return std::nullopt;
  return bar;
}

class HuggingFaceLog : public LogFormat {
 public:
  void read(const LogLine& line, RunLog& log) override {
    const std::string_view text = line.text;
    if (holds(text, "/it") || holds(text, "it/s")) read_bar(line, log);  // others write behind a bar, which ends no line
    if (holds(text, "***** Running training *****")) return begin(line, log);
    if (holds(text, "Total train batch size")) return read_batch(text, log);
    if (holds(text, "Total optimization steps =")) total_ = count_after(text, "Total optimization steps =", true).value_or(0);
    if (holds(text, "***** Running Evaluation *****") || holds(text, "'eval_loss'")) return log.evaluation();
    if (holds(text, "Saving model checkpoint")) return log.checkpoint();
    if (holds(text, "'train_steps_per_second'")) read_end(line, log);
  }

 private:
  void begin(const LogLine& line, RunLog& log) {
    if (log.started()) headings_ = 0;
    ++headings_;
    log.begin_job("", line.number);
    total_ = number_ = 0, bar_ = {};
  }

  static void read_batch(std::string_view text, RunLog& log) {
    if (const auto batch = count_after(text, " = ", true)) log.job().batch = *batch;
  }

  // The bar of an evaluation has another total than the training's.
  void read_bar(const LogLine& line, RunLog& log) {
    const auto bar = bar_of(line.text);
    if (!bar) return;
    if (total_ == 0) total_ = bar->total;
    if (bar->total != total_) return log.evaluation();
    if (bar->number == number_ || bar->number == 0) return;  // drawn again
    if (bar->number < number_ && headings_ > 1) return log.other_rank();
    if (bar->number < number_) bar_ = {};
    number_ = bar->number;
    log.step({.number = bar->number, .seconds = bar_.seconds(bar->number, bar->seconds), .planned = total_, .rank = line.rank});
  }

  // Without bars, the mean of the whole run. Its rate has three digits behind the point, which are few for slow steps.
  void read_end(const LogLine& line, RunLog& log) {
    const auto rate = number_after(line.text, "'train_steps_per_second':");
    if (!rate || *rate <= 0 || log.started()) return;
    const long long steps = count_after(line.text, "global_step=").value_or(total_);
    const auto runtime = number_after(line.text, "'train_runtime':");
    const double seconds = runtime && steps > 0 ? *runtime / static_cast<double>(steps) : 1 / *rate;
    log.step({.number = std::max(1LL, steps), .seconds = seconds, .rank = line.rank});
  }

  long long total_ = 0, number_ = 0;
  long long headings_ = 0;  // of the run: each rank writes one where all of them report, and draws its own bar
  SmoothedBar bar_;
};

}  // namespace

std::unique_ptr<LogFormat> huggingface_log() { return std::make_unique<HuggingFaceLog>(); }

}  // namespace panpipe::jobs
