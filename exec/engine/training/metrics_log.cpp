#include "exec/engine/training/metrics_log.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.hpp"
#include "costmodel/base/files_write.hpp"

namespace panpipe::exec {

MetricsLog::MetricsLog(const PreparedRun& run, bool append) : run_(run) {
  samples_ = static_cast<double>(run.experiment.scenario.micro) * run.layout.microbatches * run.plan.data;
  for (const int input : run.whole_graph().inputs) {
    const Tensor& tensor = run.whole_graph().tensors[static_cast<std::size_t>(input)];
    if (tensor.name == "input_ids" && tensor.shape.size() == 2) tokens_ = samples_ * static_cast<double>(tensor.shape[1]);
  }
  if (run.request.metrics.empty()) return;
  check_outputs({run.request.metrics}, "choose another file with --metrics");
  make_folder_of(run.request.metrics);
  file_.open(run.request.metrics, append ? std::ios::app : std::ios::trunc);
  if (!file_) throw MachineError(fmt::format("cannot write {}: {}", run.request.metrics, std::strerror(errno)));
}

void MetricsLog::write(const StepMetrics& metrics) {
  const double per_step = tokens_ > 0 ? tokens_ : samples_;
  const double rate = metrics.step_time_s > 0 ? per_step / metrics.step_time_s : 0;
  if (file_.is_open()) {
    nlohmann::ordered_json line = {{"step", metrics.step},
                                   {"loss", metrics.loss},
                                   {"learning_rate", metrics.learning_rate},
                                   {"gradient_norm", metrics.gradient_norm},
                                   {"step_time_s", metrics.step_time_s},
                                   {tokens_ > 0 ? "tokens_per_s" : "samples_per_s", rate},
                                   {"loss_scale", metrics.loss_scale},
                                   {"skipped", metrics.skipped}};
    if (metrics.warmup) line["warmup"] = true;
    file_ << line.dump() << "\n" << std::flush;
    if (!file_) throw MachineError(fmt::format("cannot write {}: {}", run_.request.metrics, std::strerror(errno)));
  }
  if (!run_.request.progress) return;
  const int last = run_.request.warmup + run_.request.steps;
  std::string text = fmt::format("step {}/{}  loss {:.6g}  {:.4g} s  {:.4g} {}/s", metrics.step, last, metrics.loss,
                                 metrics.step_time_s, rate, tokens_ > 0 ? "tokens" : "samples");
  if (metrics.warmup) text += "  warm-up";
  if (metrics.skipped) text += fmt::format("  skipped: gradients overflowed at a loss scale of {:g}", metrics.loss_scale);
  fmt::print(stderr, "{}\n", text);
}

}  // namespace panpipe::exec
