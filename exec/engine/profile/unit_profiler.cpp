#include "exec/engine/profile/unit_profiler.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/stage/expert_rows.hpp"
#include "exec/engine/stage/scalar_types.hpp"
#include "exec/engine/training/synthetic_data.hpp"

namespace panpipe::exec {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::vector<int> range(int first, int end) {
  std::vector<int> all(index(end - first));
  std::iota(all.begin(), all.end(), first);
  return all;
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
  HeldForward(const OperatorGraph& graph, const StageLayout& layout, const OperatorProgram& program,
              const ParameterStore& parameters, const std::vector<at::Tensor>& data, const CallContext& context,
              at::Device device) {
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
      const at::TensorOptions options = at::TensorOptions().dtype(scalar_type(tensor.dtype)).device(device);
      at::Tensor leaf = at::zeros({}, options).expand(tensor.shape);
      if (layout.needs_gradient[index(t)]) leaf.requires_grad_(true);
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
  const std::int64_t rows = graph.tensors[index(producer.outputs.front())].shape[0];
  const at::Tensor ends = at::floor_divide(at::arange(counts.numel() + 1, at::kLong) * rows, counts.numel());
  counts.copy_(ends.diff().view(counts.sizes()));
}

}  // namespace

std::vector<at::Tensor> stand_in_values(const OperatorGraph& graph, const std::vector<int>& tensors, std::uint64_t seed,
                                        at::Device device) {
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
      if (tensor.producer >= 0) fill_row_counts(graph.operators[index(tensor.producer)], graph, values.back());
    }
    values.back() = values.back().to(device);
  }
  return values;
}

std::vector<at::Tensor> stand_in_gradients(const OperatorGraph& graph, const StageLayout& layout, const std::vector<int>& outputs,
                                           at::Device device) {
  std::vector<at::Tensor> gradients;
  for (const int t : outputs) {
    const Tensor& tensor = graph.tensors[index(t)];
    gradients.push_back(layout.needs_gradient[index(t)] || t == graph.loss
                            ? at::full(tensor.shape, 1e-3, at::TensorOptions().dtype(scalar_type(tensor.dtype)).device(device))
                            : at::Tensor());
  }
  return gradients;
}

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
      watch_(device) {
  for (int u = first; u < end; ++u) {
    const StageRange& stage = layout.stages[index(u)];
    const std::vector<StagePart> cut = cut_at_collectives(graph, stage);
    Unit& unit = units_.emplace_back();
    unit.index = u;
    for (const StagePart& range : cut)
      if (!range.communicates || row_of(graph.operators[index(range.first_operator)]).role == OperatorRole::Loss)
        unit.parts.push_back(make_part(stage, range, cut.size() == 1));
  }
}

UnitProfiler::Part UnitProfiler::make_part(const StageRange& stage, const StagePart& range, bool alone) {
  Part part;
  if (range.communicates) {
    part.loss = make_loss(graph_.operators[index(range.first_operator)]);
    return part;
  }
  part.stage = std::make_unique<Stage>(graph_, range.first_operator, range.end_operator, alone ? stage.outputs : range.makes,
                                       parameters_, layout_.needs_gradient, /*recompute=*/false, device_, copies_.get());
  part.inputs = stand_in_values(graph_, part.stage->inputs(), seed_, device_);
  part.output_gradients = stand_in_gradients(graph_, layout_, part.stage->outputs(), device_);
  return part;
}

// Logits of this rank's part of the vocabulary, with labels anywhere in it.
VocabularyPart UnitProfiler::make_loss(const Operator& op) const {
  const int logits = tensor_argument(op, "self"), labels = tensor_argument(op, "target");
  const std::int64_t vocabulary = value_argument<std::int64_t>(op, "vocabulary").value();
  VocabularyPart own;
  own.logits = stand_in_values(graph_, {logits}, seed_, device_).front();
  const std::int64_t width = own.logits.size(1);
  own.first = width * shard_;
  own.columns = std::clamp<std::int64_t>(vocabulary - own.first, 0, width);
  own.labels = at::arange(graph_.tensors[index(labels)].elements(), own.logits.options().dtype(at::kLong)).remainder(vocabulary);
  own.ignored = value_argument<std::int64_t>(op, "ignore_index").value();
  return own;
}

void UnitProfiler::forward(Part& part) {
  watch_.time(part.samples.forward, [&] {
    if (part.loss) {
      part.found = vocabulary_loss(*part.loss, vocabulary_statistics(*part.loss, shard_, graph_.degrees.tensor));
      return;
    }
    part.stage->forward(0, part.inputs, context_);
  });
}

void UnitProfiler::backward(Part& part, bool split) {
  std::vector<double>& whole = split ? part.samples.input_gradient : part.samples.backward;
  watch_.time(whole, [&] {
    if (part.loss)
      vocabulary_gradient(*part.loss, part.found, at::ones({}, part.loss->logits.options()));
    else if (split)
      part.stage->input_gradient(0, part.output_gradients);
    else
      part.stage->backward(0, part.output_gradients);
  });
  if (split && part.stage) watch_.time(part.samples.weight_gradient, [&] { part.stage->weight_gradient(0); });
}

void UnitProfiler::repeat(const std::function<void()>& together, std::vector<UnitSamples>& samples) {
  samples.resize(units_.size());
  for (const bool split : {false, true}) {
    together();
    for (Unit& unit : units_)
      for (Part& part : unit.parts) forward(part);
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit)
      for (auto part = unit->parts.rbegin(); part != unit->parts.rend(); ++part) backward(*part, split);
    watch_.read();
  }
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (std::vector<double> UnitSamples::*pass :
         {&UnitSamples::forward, &UnitSamples::backward, &UnitSamples::input_gradient, &UnitSamples::weight_gradient}) {
      // A turn runs the forward twice, in front of the whole backward and of its halves.
      const std::size_t times = pass == &UnitSamples::forward ? 2 : 1;
      std::vector<double> sums(times, 0.0);
      for (Part& part : units_[u].parts) {
        std::vector<double> own = std::exchange(part.samples.*pass, {});
        for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
      }
      (samples[u].*pass).insert((samples[u].*pass).end(), sums.begin(), sums.end());
    }
  }
}

void UnitProfiler::add_memory(const StageRange& stage, const StagePart& range, const std::vector<int>& outputs,
                              const std::vector<int>& outside, DeviceMemory& account, UnitMemory& sum) const {
  const OperatorProgram program(graph_, range.first_operator, range.end_operator, outputs, device_);
  std::vector<at::Tensor> data;
  for (const int t : program.inputs())
    if (graph_.tensors[index(t)].role == TensorRole::Input) data.push_back(stand_in_values(graph_, {t}, seed_, device_).front());
  const auto made_in_unit = [&](int t) {
    const int producer = graph_.tensors[index(t)].producer;
    return producer >= stage.first_operator && producer < stage.end_operator;
  };
  for (const bool split : {false, true}) {
    account.begin(0);
    std::int64_t before = account.live();
    HeldForward held(graph_, layout_, program, parameters_, data, context_, device_);
    before += held.leaf_bytes;
    const std::int64_t kept = account.live() - before;
    sum.temporary = std::max(sum.temporary, account.end().peak - before - kept);
    if (!split) {
      sum.saved += kept;
      for (const auto& [t, storage] : held.arrived) {
        if (storage.expired() || made_in_unit(t)) continue;
        sum.keeps.push_back(static_cast<int>(std::find(outside.begin(), outside.end(), t) - outside.begin()));
        sum.saved -= graph_.tensors[index(t)].bytes().base();
      }
    }
    account.begin(0);
    std::vector<at::Tensor> gradients = stand_in_gradients(graph_, layout_, outputs, device_);
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
  const StageRange& stage = layout_.stages[index(unit)];
  const std::vector<int> outside = from_outside(graph_, stage.first_operator, stage.end_operator);
  const std::vector<StagePart> cut = cut_at_collectives(graph_, stage);
  UnitMemory found;
  for (const StagePart& range : cut) {
    const Operator& first = graph_.operators[index(range.first_operator)];
    if (!range.communicates)
      add_memory(stage, range, cut.size() == 1 ? stage.outputs : range.makes, outside, account, found);
    else if (row_of(first).role == OperatorRole::Loss)
      add_loss_memory(first, account, found);
  }
  return found;
}

}  // namespace panpipe::exec
