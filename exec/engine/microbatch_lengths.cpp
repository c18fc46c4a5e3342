#include "exec/engine/microbatch_lengths.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/scenario/at_key.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/slices/slice_graph.hpp"
#include "schedule/rolling.hpp"

namespace panpipe::exec {
namespace {

// The executor runs each length's graph over the same parameters and messages.
void check_alike(const Scenario& scenario, const Plan& plan, const OperatorGraph& whole, const OperatorGraph& part) {
  const auto refuse = [&](const char* why) {
    throw fault_at(scenario, "batch.lengths", why, "run sequences of one length; estimate, simulate and plan know more");
  };
  const auto same_target = [](const Operator& a, const Operator& b) { return a.target == b.target; };
  if (whole.tensors.size() != part.tensors.size() ||
      !std::equal(whole.operators.begin(), whole.operators.end(), part.operators.begin(), part.operators.end(), same_target))
    refuse("some layers of the model have other operators in short sequences than in long ones (windows, chosen keys)");
  if (rolling_of(plan.schedule) != Rolling::Stale) return;
  for (std::size_t t = 0; t < whole.tensors.size(); ++t)  // versions are of whole parameters
    if (whole.tensors[t].requires_gradient && whole.tensors[t].role == TensorRole::Parameter &&
        whole.tensors[t].shape != part.tensors[t].shape)
      refuse("positions are learned for each place of a sequence, and steps without a flush hold two versions of them");
}

}  // namespace

std::vector<MicrobatchLength> microbatch_lengths(const Experiment& experiment, const Plan& plan) {
  std::vector<MicrobatchLength> lengths;
  if (plan.lengths.empty()) return lengths;
  const Scenario& scenario = experiment.scenario;
  const std::vector<SequenceShape>& shapes = scenario.lengths.shapes;
  double tokens = 0;
  for (const int length : plan.lengths) tokens += shapes[panpipe::at(length)].tokens();
  const double mean = tokens / static_cast<double>(plan.lengths.size());
  for (std::size_t length = 0; length < shapes.size(); ++length) {
    const OperatorGraph& graph = *experiment.model.of_length(static_cast<int>(length)).source().graph;
    check_alike(scenario, plan, *experiment.workload.graph, graph);
    MicrobatchLength& made = lengths.emplace_back();
    made.graph = &graph;
    made.loss_weight = shapes[length].tokens() / mean;
    if (shapes[length].samples.size() < 2) continue;
    made.samples.assign(shapes[length].samples.begin(), shapes[length].samples.end());
    at_key(scenario, "batch.lengths", [&] { check_parts_of_sequence(graph, "packed with other samples"); });
  }
  return lengths;
}

std::vector<int> listed_microbatches(const Scenario& scenario, const Plan& plan) {
  std::vector<int> listed(plan.lengths.size());
  const auto count = panpipe::at(plan.microbatches), given = scenario.lengths.of.size();
  for (std::size_t first = 0; first < listed.size(); first += count) {
    std::vector<bool> taken(count);
    for (std::size_t m = 0; m < count; ++m) {
      std::size_t from = 0;  // the first of this length that no earlier one has
      while (taken[from] || scenario.lengths.of[(first + from) % given] != plan.lengths[first + m]) ++from;
      taken[from] = true;
      listed[first + m] = static_cast<int>(from);
    }
  }
  return listed;
}

at::Tensor first_part(at::Tensor whole, const Shape& shape) {
  for (std::size_t d = 0; d < shape.size() && whole.dim() == std::ssize(shape); ++d)
    if (const auto dimension = static_cast<std::int64_t>(d); whole.size(dimension) > shape[d])
      whole = whole.narrow(dimension, 0, shape[d]);
  return whole;
}

}  // namespace panpipe::exec
