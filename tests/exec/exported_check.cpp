#include "tests/exec/exported_check.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "exec/engine/checkpoint/safetensors.hpp"
#include "tests/exec/step_on_threads.hpp"

namespace panpipe::exec {
namespace {

// Largest difference relative to the largest expected value; both may be empty.
double relative(const at::Tensor& expected, const at::Tensor& found, double least_scale) {
  if (expected.numel() == 0) return 0;
  const double scale = std::max(expected.abs().max().item<double>(), least_scale);
  const double difference = (expected.to(at::kDouble) - found.to(at::kDouble)).abs().max().item<double>();
  return difference == 0 ? 0 : difference / scale;
}

}  // namespace

Reference read_reference(const std::string& safetensors_file) {
  Reference reference;
  const SafetensorsFile file(safetensors_file);
  for (const auto& [name, stored] : file.tensors()) {
    const at::Tensor value = file.read(name);
    if (name == "loss") {
      reference.expected.loss = value.item<double>();
    } else if (name.starts_with("gradient/")) {
      reference.expected.gradients.emplace(name.substr(9), value);
    } else if (name.starts_with("buffer/")) {
      reference.expected.buffers.emplace(name.substr(7), value);
    } else if (name.starts_with("input/")) {
      const std::size_t slash = name.rfind('/');
      const auto microbatch = static_cast<std::size_t>(std::stoi(name.substr(slash + 1)));
      if (reference.batches.size() <= microbatch) reference.batches.resize(microbatch + 1);
      if (value.dim() > 0) reference.micro = static_cast<int>(value.size(0));
      reference.batches[microbatch].emplace(name.substr(6, slash - 6), value);
    }
  }
  reference.microbatches = static_cast<int>(reference.batches.size());
  return reference;
}

std::string Cut::text() const {
  return fmt::format("{} on {} rank{}{}{}", schedule, ranks, ranks == 1 ? "" : "s",
                     stages_per_rank > 1 ? fmt::format(", {} stages each", stages_per_rank) : "",
                     recompute == Recompute::Full ? ", recomputed" : "");
}

Plan plan_of(const OperatorGraph& graph, const Cut& cut, int microbatches) {
  Plan plan;
  plan.pipeline = cut.ranks;
  ScheduleOptions options;
  if (cut.stages_per_rank > 1) options["stages_per_rank"] = std::to_string(cut.stages_per_rank);
  plan.schedule = make_schedule(cut.schedule, cut.ranks, microbatches, options);
  const int units = static_cast<int>(graph.units.size()), stages = plan.schedule.stages;
  for (int s = 0; s < stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const int first = s == 0 ? 0 : cut.starts.empty() ? units * s / stages : cut.starts[at - 1];
    const int end = s + 1 == stages ? units : cut.starts.empty() ? units * (s + 1) / stages : cut.starts[at];
    plan.stages.push_back({first, end, cut.recompute});
  }
  return plan;
}

StepOutcome train(const OperatorGraph& graph, const Plan& plan, const Reference& reference) {
  const StageLayout layout = make_stage_layout(graph, plan);
  const DataSource data = [&](int input, std::int64_t sample) { return reference.batches[sample].at(graph.tensors[input].name); };
  StepOutcome outcome;
  for (const RankStep& rank : step_on_threads(graph, plan, layout, data)) {
    outcome.loss += rank.result.loss_sum / layout.microbatches;
    for (const auto& [tensor, value] : rank.parameters->trained()) {
      if (!value.grad().defined()) continue;
      at::Tensor& sum = outcome.gradients[graph.tensors[tensor].name];
      sum = sum.defined() ? sum.add(value.grad()) : value.grad();
    }
    for (const auto& [tensor, value] : rank.parameters->buffers()) outcome.buffers[graph.tensors[tensor].name] = value;
  }
  return outcome;
}

Difference compare(const OperatorGraph& graph, const StepOutcome& expected, const StepOutcome& found, double floor) {
  Difference worst;
  worst.loss = std::abs(found.loss - expected.loss) / std::max(std::abs(expected.loss), 1e-12);
  if (!std::isfinite(found.loss)) worst.loss = std::isfinite(expected.loss) ? 1 : 0;
  double largest = 0;
  for (const auto& [name, gradient] : expected.gradients)
    if (gradient.numel() > 0) largest = std::max(largest, gradient.abs().max().item<double>());
  std::map<std::string, std::string> root_name;  // a tied parameter has its root's gradient
  for (std::size_t t = 0; t < graph.tensors.size(); ++t)
    if (graph.tensors[t].role == TensorRole::Parameter)
      root_name[graph.tensors[t].name] = graph.tensors[root_of(graph, static_cast<int>(t))].name;
  for (const auto& [name, gradient] : expected.gradients) {
    const auto root = root_name.find(name);
    if (root == root_name.end()) {
      worst.missing = name;
      continue;
    }
    const auto own = found.gradients.find(root->second);
    if (own == found.gradients.end()) {
      if (gradient.ne(0).any().item<bool>()) worst.missing = name;
      continue;
    }
    const double difference = relative(gradient, own->second, floor * largest);
    if (!(difference <= worst.gradient)) {
      worst.gradient = difference;
      worst.worst_gradient = name;
    }
  }
  for (const auto& [name, gradient] : found.gradients)
    if (!expected.gradients.count(name) && gradient.ne(0).any().item<bool>()) worst.missing = name;
  for (const auto& [name, value] : expected.buffers) {
    const auto own = found.buffers.find(name);
    if (own == found.buffers.end() || value.scalar_type() == at::kBool) continue;  // unused, or not a number
    const double difference = relative(value, own->second, 1e-6);
    if (!(difference <= worst.buffer)) {
      worst.buffer = difference;
      worst.worst_buffer = name;
    }
  }
  return worst;
}

}  // namespace panpipe::exec
