#include "exec/engine/training/metrics_log.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/files/input_registry.hpp"
#include "base/text/rate_text.hpp"

namespace panpipe::exec {

namespace {

// Lines of steps that will be trained again, and a last one that was cut off, are taken out.
void keep_until(const std::string& path, std::int64_t last_step) {
  std::error_code missing;
  if (!std::filesystem::is_regular_file(path, missing)) return;
  const std::string text = input_bytes(path).value_or("");
  std::string kept;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                            text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    const auto step = line.is_object() ? line.find("step") : line.end();
    const bool later = step != line.end() && step->is_number_integer() && step->get<std::int64_t>() > last_step;
    if (!later) kept.append(text, begin, end + 1 - begin);
  }
  if (kept != text) write_file(std::filesystem::canonical(path).string(), kept, "choose another file with --metrics");
}

}  // namespace

MetricsLog::MetricsLog(const PreparedRun& run, std::int64_t steps_done) : run_(run) {
  samples_ = static_cast<double>(run.samples_of_step());
  for (const int input : run.whole_graph().inputs) {
    const Tensor& tensor = run.whole_graph().tensors[input];
    if (tensor.name == "input_ids" && tensor.shape.size() == 2) tokens_ = samples_ * static_cast<double>(tensor.shape[1]);
  }
  if (run.request.metrics.empty()) return;
  check_outputs({run.request.metrics}, "choose another file with --metrics");
  make_folder_of(run.request.metrics);
  if (steps_done > 0) keep_until(run.request.metrics, steps_done);
  file_.open(run.request.metrics, steps_done > 0 ? std::ios::app : std::ios::trunc);
  if (!file_) throw MachineError(fmt::format("cannot write {}: {}", run.request.metrics, std::strerror(errno)));
}

void MetricsLog::write(const StepReport& step) {
  const double per_step = tokens_ > 0 ? tokens_ : samples_;
  const double rate = step.seconds > 0 ? per_step / step.seconds : 0;
  const double loss = step.loss_sum / (static_cast<double>(run_.layout.microbatches) * run_.plan.data);
  const bool warmup = step.step <= run_.request.warmup;
  if (file_.is_open()) {
    nlohmann::ordered_json line = {{"step", step.step},
                                   {"loss", loss},
                                   {"learning_rate", step.notes.learning_rate},
                                   {"gradient_norm", std::sqrt(step.squared_norm)},
                                   {"step_time_s", step.seconds},
                                   {tokens_ > 0 ? "tokens_per_s" : "samples_per_s", rate},
                                   {"loss_scale", step.notes.loss_scale},
                                   {"skipped", step.notes.skipped}};
    if (step.epoch) line["epoch"] = *step.epoch;
    if (step.validation_loss) line["validation_loss"] = *step.validation_loss;
    if (warmup) line["warmup"] = true;
    file_ << line.dump() << "\n" << std::flush;
    if (!file_) throw MachineError(fmt::format("cannot write {}: {}", run_.request.metrics, std::strerror(errno)));
  }
  if (!run_.request.progress) return;
  const int last = run_.request.warmup + run_.request.steps;
  const std::string epoch = step.epoch ? fmt::format("  epoch {:.2f}", *step.epoch) : "";
  std::string text = fmt::format("step {}/{}{}  loss {:.6g}  {:.4g} s  {} {}/s", step.step, last, epoch, loss, step.seconds,
                                 rate_text(rate), tokens_ > 0 ? "tokens" : "samples");
  if (step.validation_loss) text += fmt::format("  validation loss {:.6g}", *step.validation_loss);
  if (warmup) text += "  warm-up";
  if (step.notes.skipped) text += fmt::format("  skipped: gradients overflowed at a loss scale of {:g}", step.notes.loss_scale);
  fmt::print(stderr, "{}\n", text);
}

}  // namespace panpipe::exec
