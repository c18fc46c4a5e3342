#include "tests/exec/exported_check.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {
namespace {

std::map<std::string, at::Tensor> read_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  static const std::map<std::string, at::ScalarType> kTypes = {
      {"F32", at::kFloat}, {"F64", at::kDouble}, {"I64", at::kLong}, {"BOOL", at::kBool}};
  std::map<std::string, at::Tensor> tensors;
  const nlohmann::json header = nlohmann::json::parse(text);
  for (const auto& [name, entry] : header.items()) {
    at::Tensor value = at::empty(entry["shape"].get<std::vector<std::int64_t>>(), kTypes.at(entry["dtype"]));
    file.seekg(static_cast<std::streamoff>(8 + length + entry["data_offsets"][0].get<std::uint64_t>()));
    file.read(static_cast<char*>(value.data_ptr()), static_cast<std::streamsize>(value.nbytes()));
    tensors.emplace(name, value);
  }
  return tensors;
}

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
  for (const auto& [name, value] : read_safetensors(safetensors_file)) {
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
  const auto transports = make_local_transports(plan.pipeline);
  const DataSource data = [&](int input, std::int64_t sample) { return reference.batches[sample].at(graph.tensors[input].name); };
  std::vector<std::unique_ptr<SeededParameters>> stores;
  std::vector<double> losses(plan.pipeline);
  std::vector<std::exception_ptr> failures(losses.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < plan.pipeline; ++rank) {
    stores.push_back(std::make_unique<SeededParameters>(graph, layout, stages_of(plan, rank), 7));
  }
  for (int rank = 0; rank < plan.pipeline; ++rank) {
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      try {
        // As the reference was made. The number is partly the process's own: asking first makes this thread's.
        (void)at::get_num_threads();
        at::set_num_threads(1);
        WorkerOptions options;
        options.seed = 7;
        RankSite site{graph, plan, layout, *transports[at]};
        Worker worker(site, *stores[at], data, options);
        losses[at] = worker.step(0).loss_sum;
      } catch (const std::exception& error) {
        failures[at] = std::current_exception();
        transports[at]->abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The first to fail aborted the others: what is no lost peer is the cause.
  std::exception_ptr cause;
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const PeerLost&) {
      if (!cause) cause = failure;
    } catch (...) {
      cause = failure;
    }
  }
  if (cause) std::rethrow_exception(cause);
  StepOutcome outcome;
  for (const double loss : losses) outcome.loss += loss / layout.microbatches;
  for (const auto& store : stores) {
    for (const auto& [tensor, value] : store->trained()) {
      if (!value.grad().defined()) continue;
      at::Tensor& sum = outcome.gradients[graph.tensors[tensor].name];
      sum = sum.defined() ? sum.add(value.grad()) : value.grad();
    }
    for (const auto& [tensor, value] : store->buffers()) outcome.buffers[graph.tensors[tensor].name] = value;
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
