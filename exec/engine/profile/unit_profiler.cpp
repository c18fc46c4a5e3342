#include "exec/engine/profile/unit_profiler.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "costmodel/workload/operands.hpp"
#include "exec/engine/profile/robust.hpp"
#include "exec/engine/scalar_types.hpp"
#include "exec/engine/training/synthetic_data.hpp"

namespace panpipe::exec {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::vector<int> range(int first, int end) {
  std::vector<int> all(index(end - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

template <class Work>
void timed(std::vector<double>& samples, Work work) {
  const auto start = Clock::now();
  work();
  samples.push_back(seconds_since(start));
}

// What arrives from other units, in any numbers: no operator's time depends on them, apart from denormal ones.
std::vector<at::Tensor> values_for(const OperatorGraph& graph, const std::vector<int>& tensors, std::uint64_t seed) {
  const DataSource data = synthetic_data(graph, seed);
  std::vector<at::Tensor> values;
  for (const int t : tensors) {
    const Tensor& tensor = graph.tensors[index(t)];
    if (tensor.role == TensorRole::Input) {
      values.push_back(data(t, 0));
    } else if (at::isFloatingType(scalar_type(tensor.dtype))) {
      values.push_back(at::randn(tensor.shape, at::TensorOptions().dtype(scalar_type(tensor.dtype))));
    } else {
      values.push_back(at::zeros(tensor.shape, at::TensorOptions().dtype(scalar_type(tensor.dtype))));
    }
  }
  return values;
}

std::vector<at::Tensor> gradients_for(const OperatorGraph& graph, const Layout& layout, const std::vector<int>& outputs) {
  std::vector<at::Tensor> gradients;
  for (const int t : outputs) {
    const Tensor& tensor = graph.tensors[index(t)];
    gradients.push_back(layout.needs_gradient[index(t)] || t == graph.loss
                            ? at::full(tensor.shape, 1e-3, at::TensorOptions().dtype(scalar_type(tensor.dtype)))
                            : at::Tensor());
  }
  return gradients;
}

// Tensors made outside operators [first, end), by first use: as the cost model numbers them.
std::vector<int> from_outside(const OperatorGraph& graph, int first, int end) {
  std::vector<int> found;
  for (int i = first; i < end; ++i) {
    for_each_operand(graph.operators[index(i)], [&](int t) {
      const int producer = graph.tensors[index(t)].producer;
      const bool inside = producer >= first && producer < end;
      if (!inside && std::find(found.begin(), found.end(), t) == found.end()) found.push_back(t);
    });
  }
  return found;
}

// A forward of which only the backward's needs are left alive.
class HeldForward {
 public:
  HeldForward(const OperatorGraph& graph, const Layout& layout, const OperatorProgram& program, const ParameterStore& parameters,
              const std::vector<at::Tensor>& data, std::uint64_t seed) {
    std::vector<at::Tensor> values;
    std::size_t next_data = 0;
    for (const int t : program.inputs()) {
      const Tensor& tensor = graph.tensors[index(t)];
      if (tensor.role == TensorRole::Parameter || tensor.role == TensorRole::Buffer) {
        values.push_back(parameters.tensor(t));
        continue;
      }
      if (tensor.role == TensorRole::Input) {
        values.push_back(data[next_data++]);
        continue;
      }
      // One element stands for the leaf; what the unit reads is a copy that nothing else holds on to.
      const at::TensorOptions options = at::TensorOptions().dtype(scalar_type(tensor.dtype));
      at::Tensor leaf = at::zeros({}, options).expand(tensor.shape);
      if (layout.needs_gradient[index(t)]) leaf.requires_grad_(true);
      values.push_back(leaf.clone(at::MemoryFormat::Contiguous));
      leaves.push_back(leaf);
      leaf_bytes += static_cast<std::int64_t>(leaf.storage().nbytes());
      arrived.emplace_back(t, values.back().storage().getWeakStorageImpl());
    }
    std::vector<at::Tensor> results = program.run(std::move(values), {seed, 0});
    roots = backward_roots(results);
  }

  std::vector<at::Tensor> leaves;
  std::int64_t leaf_bytes = 0;
  std::vector<std::pair<int, c10::weak_intrusive_ptr<c10::StorageImpl>>> arrived;  // activations by graph tensor
  std::vector<torch::autograd::Edge> roots;
};

}  // namespace

Plan plan_of_units(const OperatorGraph& graph) {
  Plan plan;
  const int units = static_cast<int>(graph.units.size());
  plan.pipeline = units;
  plan.schedule = make_schedule("gpipe", units, 1, {});
  for (int u = 0; u < units; ++u) plan.stages.push_back({u, u + 1, Recompute::None});
  return plan;
}

std::vector<std::pair<int, int>> windows(const OperatorGraph& graph, const Layout& layout, std::int64_t bytes) {
  std::vector<std::pair<int, int>> found;
  std::int64_t held = 0;
  for (int u = 0; u < static_cast<int>(layout.stages.size()); ++u) {
    std::int64_t own = 0;
    const StageRange& stage = layout.stages[index(u)];
    for (const int t : stage.parameters) own += 2 * graph.tensors[index(t)].bytes().base();  // with its gradient
    for (int i = stage.first_operator; i < stage.end_operator; ++i)
      for (const int t : graph.operators[index(i)].outputs) own += 2 * graph.tensors[index(t)].bytes().base();
    if (found.empty() || held + own > bytes) {
      found.emplace_back(u, u);
      held = 0;
    }
    found.back().second = u + 1;
    held += own;
  }
  return found;
}

UnitProfiler::UnitProfiler(const OperatorGraph& graph, const Layout& layout, int first, int end, std::uint64_t seed)
    : graph_(graph), layout_(layout), seed_(seed), parameters_(graph, layout, range(first, end), seed) {
  for (int u = first; u < end; ++u) {
    const StageRange& stage = layout.stages[index(u)];
    Unit unit;
    unit.index = u;
    unit.stage = std::make_unique<Stage>(graph, stage.first_operator, stage.end_operator, stage.outputs, parameters_,
                                         layout.needs_gradient, /*recompute=*/false);
    unit.inputs = values_for(graph, unit.stage->inputs(), seed);
    unit.output_gradients = gradients_for(graph, layout, unit.stage->outputs());
    units_.push_back(std::move(unit));
  }
}

void UnitProfiler::forward(Unit& unit, UnitSamples& samples) {
  timed(samples.forward, [&] {
    const auto outputs = unit.stage->forward(0, unit.inputs, {seed_, 0});
    if (unit.index == layout_.loss_stage) outputs.back().item<double>();  // as a worker does
  });
}

void UnitProfiler::repeat(const std::function<void()>& together, std::vector<UnitSamples>& samples) {
  samples.resize(units_.size());
  for (const bool split : {false, true}) {
    together();
    for (std::size_t u = 0; u < units_.size(); ++u) forward(units_[u], samples[u]);
    for (std::size_t u = units_.size(); u-- > 0;) {
      Unit& unit = units_[u];
      if (split) {
        timed(samples[u].input_gradient, [&] { unit.stage->input_gradient(0, unit.output_gradients); });
        timed(samples[u].weight_gradient, [&] { unit.stage->weight_gradient(0); });
      } else {
        timed(samples[u].backward, [&] { unit.stage->backward(0, unit.output_gradients); });
      }
    }
  }
}

UnitMemory UnitProfiler::memory(int unit, MemoryAccount& account) const {
  const StageRange& stage = layout_.stages[index(unit)];
  const OperatorProgram program(graph_, stage.first_operator, stage.end_operator, stage.outputs);
  std::vector<at::Tensor> data;
  for (const int t : program.inputs())
    if (graph_.tensors[index(t)].role == TensorRole::Input) data.push_back(values_for(graph_, {t}, seed_).front());
  const std::vector<int> outside = from_outside(graph_, stage.first_operator, stage.end_operator);
  UnitMemory found;
  for (const bool split : {false, true}) {
    account.begin(0);
    std::int64_t before = account.live();
    HeldForward held(graph_, layout_, program, parameters_, data, seed_);
    before += held.leaf_bytes;
    const std::int64_t kept = account.live() - before;
    found.temporary = std::max(found.temporary, account.end().peak - before - kept);
    if (!split) {
      found.saved = kept;
      for (const auto& [t, storage] : held.arrived) {
        if (storage.expired()) continue;
        found.keeps.push_back(static_cast<int>(std::find(outside.begin(), outside.end(), t) - outside.begin()));
        found.saved -= graph_.tensors[index(t)].bytes().base();
      }
    }
    account.begin(0);
    std::vector<at::Tensor> gradients = gradients_for(graph_, layout_, stage.outputs);
    if (split) {
      InputGradients result = input_gradients(held.roots, gradients, held.leaves);
      gradients.clear();
      result.gradients.clear();
      held.roots.clear();
      found.kept_for_weight = account.live() - before;
      weight_gradients(std::move(result.rest));
    } else {
      full_backward(held.roots, gradients, held.leaves);
    }
    found.temporary = std::max(found.temporary, account.end().peak - before - kept);
  }
  return found;
}

}  // namespace panpipe::exec
