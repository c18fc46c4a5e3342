#include "exec/engine/profile/unit_profiler.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/index.hpp"
#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/stage/scalar_types.hpp"
#include "exec/engine/training/synthetic_data.hpp"

namespace panpipe::exec {
namespace {

std::vector<int> range(int first, int end) {
  std::vector<int> all(panpipe::at(end - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Tensors made outside operators [first, end), by first use: as the cost model numbers them.
std::vector<int> from_outside(const OperatorGraph& graph, int first, int end) {
  std::vector<int> found;
  for (int i = first; i < end; ++i) {
    for_each_operand(graph.operators[panpipe::at(i)], [&](int t) {
      const int producer = graph.tensors[panpipe::at(t)].producer;
      const bool inside = producer >= first && producer < end;
      if (!inside && std::find(found.begin(), found.end(), t) == found.end()) found.push_back(t);
    });
  }
  return found;
}

// A forward of which only the backward's needs are left alive.
class HeldForward {
 public:
  // `given`: the data among them are read as they are.
  HeldForward(const OperatorGraph& graph, const StageLayout& layout, const OperatorProgram& program,
              const ParameterStore& parameters, const std::vector<at::Tensor>& given, const CallContext& context,
              at::Device device) {
    std::vector<at::Tensor> values;
    for (const int t : program.inputs()) {
      const Tensor& tensor = graph.tensors[panpipe::at(t)];
      if (values.size() >= given.size()) {
        values.push_back(parameters.tensor(t));
        continue;
      }
      if (tensor.role == TensorRole::Input) {
        values.push_back(given[values.size()]);
        continue;
      }
      // One element stands for the leaf; what the unit reads is a copy that nothing else holds on to.
      const at::TensorOptions options = at::TensorOptions().dtype(scalar_type(tensor.dtype)).device(device);
      at::Tensor leaf = at::zeros({}, options).expand(tensor.shape);
      if (layout.needs_gradient[panpipe::at(t)]) leaf.requires_grad_(true);
      values.push_back(leaf.clone(at::MemoryFormat::Contiguous));
      leaves.push_back(leaf);
      leaf_bytes += static_cast<std::int64_t>(leaf.storage().nbytes());
      arrived.emplace_back(t, values.back().storage().getWeakStorageImpl());
    }
    const AutocastRegion region(context.autocast, device.type());
    std::vector<at::Tensor> results = program.run(std::move(values), context);
    roots = backward_roots(results);
  }

  std::vector<at::Tensor> leaves;
  std::int64_t leaf_bytes = 0;
  std::vector<std::pair<int, c10::weak_intrusive_ptr<c10::StorageImpl>>> arrived;  // activations by graph tensor
  std::vector<torch::autograd::Edge> roots;
};

// Numbers of rows from other ranks: equally many from each rank for each expert.
void fill_row_counts(const Operator& producer, const OperatorGraph& graph, const at::Tensor& counts) {
  if (row_of(producer).role != OperatorRole::ExpertTransfer) return;
  const std::int64_t rows = graph.tensors[panpipe::at(producer.outputs.front())].shape[0];
  const at::Tensor ends = at::floor_divide(at::arange(counts.numel() + 1, at::kLong) * rows, counts.numel());
  counts.copy_(ends.diff().view(counts.sizes()));
}

// Stand-ins for tensors from other units, and for gradients sent back to them. Their values do not matter, because no operator's
// time depends on them, except for denormal numbers.
std::vector<at::Tensor> stand_in_values(const OperatorGraph& graph, const std::vector<int>& tensors, std::uint64_t seed,
                                        at::Device device) {
  const DataSource data = synthetic_data(graph, seed);
  std::vector<at::Tensor> values;
  for (const int t : tensors) {
    const Tensor& tensor = graph.tensors[panpipe::at(t)];
    if (tensor.role == TensorRole::Input) {
      values.push_back(data(t, 0));
    } else if (at::isFloatingType(scalar_type(tensor.dtype))) {
      values.push_back(at::randn(tensor.shape, at::TensorOptions().dtype(scalar_type(tensor.dtype))));
    } else {
      values.push_back(at::zeros(tensor.shape, at::TensorOptions().dtype(scalar_type(tensor.dtype))));
      if (tensor.producer >= 0) fill_row_counts(graph.operators[panpipe::at(tensor.producer)], graph, values.back());
    }
    values.back() = values.back().to(device);
  }
  return values;
}

std::vector<at::Tensor> stand_in_gradients(const OperatorGraph& graph, const StageLayout& layout, const std::vector<int>& outputs,
                                           at::Device device) {
  std::vector<at::Tensor> gradients;
  for (const int t : outputs) {
    const Tensor& tensor = graph.tensors[panpipe::at(t)];
    gradients.push_back(layout.needs_gradient[panpipe::at(t)] || t == graph.loss
                            ? at::full(tensor.shape, 1e-3, at::TensorOptions().dtype(scalar_type(tensor.dtype)).device(device))
                            : at::Tensor());
  }
  return gradients;
}

}  // namespace

Plan plan_of_units(const OperatorGraph& graph) {
  Plan plan;
  const int units = static_cast<int>(graph.units.size());
  plan.pipeline = units;
  plan.schedule = make_schedule("gpipe", units, 1, {});
  for (int u = 0; u < units; ++u) plan.stages.push_back({u, u + 1, Recompute::None});
  return plan;
}

std::vector<std::pair<int, int>> windows(const OperatorGraph& graph, const StageLayout& layout, std::int64_t bytes) {
  std::vector<std::pair<int, int>> found;
  std::int64_t held = 0;
  for (int u = 0; u < static_cast<int>(layout.stages.size()); ++u) {
    std::int64_t own = 0;
    const StageRange& stage = layout.stages[panpipe::at(u)];
    for (const int t : stage.parameters) own += 2 * graph.tensors[panpipe::at(t)].bytes().base();  // with its gradient
    for (int i = stage.first_operator; i < stage.end_operator; ++i)
      for (const int t : graph.operators[panpipe::at(i)].outputs) own += 2 * graph.tensors[panpipe::at(t)].bytes().base();
    if (found.empty() || held + own > bytes) {
      found.emplace_back(u, u);
      held = 0;
    }
    found.back().second = u + 1;
    held += own;
  }
  return found;
}

UnitProfiler::UnitProfiler(const OperatorGraph& graph, const StageLayout& layout, int first, int end, std::uint64_t seed,
                           at::Device device, int shard, std::optional<at::ScalarType> autocast)
    : graph_(graph),
      layout_(layout),
      seed_(seed),
      device_(device),
      shard_(shard),
      copies_(autocast ? std::make_unique<WeightCopies>(*autocast) : nullptr),
      context_{.seed = seed, .autocast = autocast, .copies = copies_.get()},
      parameters_(graph, layout, range(first, end), seed, /*masters=*/false, device, shard),
      watch_(device),
      first_(first) {
  for (int u = first; u < end; ++u) {
    const StageRange& stage = layout.stages[panpipe::at(u)];
    const std::vector<StagePart> cut = cut_at_collectives(graph, stage);
    Parts& parts = units_.emplace_back();
    for (const StagePart& range : cut)
      if (!range.communicates || row_of(graph.operators[panpipe::at(range.first_operator)]).role == OperatorRole::Loss)
        parts.push_back(make_part(stage, range, cut.size() == 1));
  }
}

UnitProfiler::Part UnitProfiler::make_part(const StageRange& stage, const StagePart& range, bool alone) {
  Part part;
  if (range.communicates) {
    part.loss = &graph_.operators[panpipe::at(range.first_operator)];
    part.own = make_loss(*part.loss);
    return part;
  }
  part.stage = std::make_unique<Stage>(graph_, range.first_operator, range.end_operator, alone ? stage.outputs : range.makes,
                                       parameters_, layout_.needs_gradient, device_, copies_.get());
  part.inputs = stand_in_values(graph_, part.stage->inputs(), seed_, device_);
  part.output_gradients = stand_in_gradients(graph_, layout_, part.stage->outputs(), device_);
  return part;
}

// Logits of this rank's part of the vocabulary, with labels anywhere in it.
VocabularyPart UnitProfiler::make_loss(const Operator& op) const {
  const at::Tensor logits = stand_in_values(graph_, {tensor_argument(op, "self")}, seed_, device_).front();
  const at::Tensor rows =
      at::arange(graph_.tensors[panpipe::at(tensor_argument(op, "target"))].elements(), logits.options().dtype(at::kLong));
  return vocabulary_part(op, logits, rows.remainder(value_argument<std::int64_t>(op, "vocabulary").value()), shard_);
}

void UnitProfiler::forward(Part& part) {
  watch_.time(part.samples[panpipe::at(UnitPass::Forward)], [&] {
    if (part.loss)
      part.found = vocabulary_loss(part.own, vocabulary_statistics(part.own, shard_, graph_.degrees.tensor));
    else
      part.stage->forward(0, part.inputs, context_);
  });
}

void UnitProfiler::backward(Part& part, bool split) {
  watch_.time(part.samples[panpipe::at(split ? UnitPass::InputGradient : UnitPass::Backward)], [&] {
    if (part.loss)
      vocabulary_gradient(part.own, part.found, at::ones({}, part.own.logits.options()));
    else if (split)
      part.stage->input_gradient(0, part.output_gradients);
    else
      part.stage->backward(0, part.output_gradients);
  });
  if (split && part.stage)
    watch_.time(part.samples[panpipe::at(UnitPass::WeightGradient)], [&] { part.stage->weight_gradient(0); });
}

void UnitProfiler::repeat(const std::function<void()>& together, std::vector<UnitSamples>& samples) {
  samples.resize(units_.size());
  for (const bool split : {false, true}) {
    together();
    for (Parts& unit : units_)
      for (Part& part : unit) forward(part);
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit)
      for (auto part = unit->rbegin(); part != unit->rend(); ++part) backward(*part, split);
    watch_.read();
  }
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (std::size_t pass = 0; pass < samples[u].size(); ++pass) {
      // A turn runs the forward twice, in front of the whole backward and of its halves.
      std::vector<double> sums(pass == panpipe::at(UnitPass::Forward) ? 2 : 1, 0.0);
      for (Part& part : units_[u]) {
        const std::vector<double> own = std::exchange(part.samples[pass], {});
        for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
      }
      samples[u][pass].insert(samples[u][pass].end(), sums.begin(), sums.end());
    }
  }
}

void UnitProfiler::add_memory(const StageRange& stage, const Part& part, DeviceMemory& account, UnitMemory& sum) const {
  const std::vector<int> outside = from_outside(graph_, stage.first_operator, stage.end_operator);
  const auto made_in_unit = [&](int t) {
    const int producer = graph_.tensors[panpipe::at(t)].producer;
    return producer >= stage.first_operator && producer < stage.end_operator;
  };
  for (const bool split : {false, true}) {
    account.begin(0);
    std::int64_t before = account.live();
    HeldForward held(graph_, layout_, part.stage->program(), parameters_, part.inputs, context_, device_);
    before += held.leaf_bytes;
    const std::int64_t kept = account.live() - before;
    sum.temporary = std::max(sum.temporary, account.end().peak - before - kept);
    if (!split) {
      sum.saved += kept;
      for (const auto& [t, storage] : held.arrived) {
        if (storage.expired() || made_in_unit(t)) continue;
        sum.keeps.push_back(static_cast<int>(std::find(outside.begin(), outside.end(), t) - outside.begin()));
        sum.saved -= graph_.tensors[panpipe::at(t)].bytes().base();
      }
    }
    account.begin(0);
    std::vector<at::Tensor> gradients = stand_in_gradients(graph_, layout_, part.stage->outputs(), device_);
    if (split) {
      InputGradients result = input_gradients(held.roots, gradients, held.leaves);
      gradients.clear();
      result.gradients.clear();
      held.roots.clear();
      sum.kept_for_weight += account.live() - before;
      weight_gradients(std::move(result.rest));
    } else {
      full_backward(held.roots, gradients, held.leaves);
    }
    sum.temporary = std::max(sum.temporary, account.end().peak - before - kept);
  }
}

// The logits stay for the backward, with what describes each row.
void UnitProfiler::add_loss_memory(const Operator& op, DeviceMemory& account, UnitMemory& sum) const {
  account.begin(0);
  const std::int64_t before = account.live();
  const VocabularyPart own = make_loss(op);
  const VocabularyLoss whole = vocabulary_loss(own, vocabulary_statistics(own, shard_, graph_.degrees.tensor));
  const std::int64_t kept = account.live() - before;
  vocabulary_gradient(own, whole, at::ones({}, own.logits.options()));
  sum.saved += kept;
  sum.temporary = std::max(sum.temporary, account.end().peak - before - kept);
}

UnitMemory UnitProfiler::memory(int unit, DeviceMemory& account) const {
  UnitMemory found;
  for (const Part& part : units_[panpipe::at(unit - first_)])
    part.loss ? add_loss_memory(*part.loss, account, found) : add_memory(layout_.stages[panpipe::at(unit)], part, account, found);
  return found;
}

std::vector<MeasuredOperator> UnitProfiler::operators(int unit, int repetitions, const DeviceMemory& memory) {
  std::vector<MeasuredOperator> rows;
  for (const Part& part : units_[panpipe::at(unit - first_)]) {
    if (part.loss) continue;
    std::vector<at::Tensor> kept;
    for (std::size_t i = part.inputs.size(); i < part.stage->program().inputs().size(); ++i)
      kept.push_back(parameters_.tensor(part.stage->program().inputs()[i]));
    const std::vector<MeasuredOperator> own =
        measure_operators(*part.stage, part.inputs, kept, part.output_gradients, context_, repetitions, watch_, memory);
    rows.insert(rows.end(), own.begin(), own.end());
  }
  return rows;
}

}  // namespace panpipe::exec
