#include "costmodel/cost/unit_template.hpp"

#include <algorithm>
#include <utility>

#include "costmodel/cost/fusion.hpp"
#include "costmodel/cost/narrow_products.hpp"
#include "costmodel/cost/whole_bytes.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

// Embedding: the rows are read, written, and once more read and written by the sum with the positions; half of that again
// backward for the gradients, which are scattered into fp32 (bytes per 2-byte element of the output; docs/models/compute.md).
constexpr double kEmbeddingForward = 6.0 / 2, kEmbeddingBackward = 12.0 / 2;

// `apart`: products of a batch follow one another, each with waves of tiles of its own.
void add_products(Breakdown& cost, const PassWork& pass, const DeviceRates& rates, bool apart = false) {
  for (GemmShape shape : pass.gemms) {
    const std::int64_t times = apart ? std::exchange(shape.batch, 1) : 1;
    const Breakdown one = gemm_cost(shape, rates);
    for (std::int64_t k = 0; k < times; ++k) cost = cost + one;
  }
}

bool makes_logits(const UnitView& unit, int i) { return !unit.op(i).outputs.empty() && unit.logits(unit.op(i).outputs.front()); }

// Element-wise operators over the logits belong to the loss, whose traffic is one calibrated figure.
bool part_of_loss(const UnitView& unit, int i) { return unit.of(i).kind == OperatorClass::Elementwise && makes_logits(unit, i); }

double parameter_elements(const UnitView& unit, int i, bool trained_alone) {
  double elements = 0;
  for_each_operand(unit.op(i), [&](int t) {
    if (unit.tensor(t).role == TensorRole::Parameter && (!trained_alone || unit.tensor(t).requires_gradient))
      elements += static_cast<double>(unit.tensor(t).elements());
  });
  return elements;
}

void count_collectives(const UnitView& unit, int i, const DeviceRates& rates, OperatorTime& time) {
  const Bytes all = unit.of(i).collective_bytes;
  const auto narrow = [&](bool eight) {
    return eight ? whole_bytes(static_cast<double>(all.base()) * narrow_width(rates)) : all;
  };
  time.collective_bytes = narrow(gathers_narrow(unit, i, rates));
  time.backward_bytes = narrow(gathers_narrow_gradient(unit, i, rates));
}

// Bytes per microbatch for the weights of a product, in addition to the product: autocast's copies of the weight and of its
// gradient, and the sum of gradients.
void add_weight_traffic(const UnitView& unit, int i, const DeviceRates& rates, OperatorTime& time) {
  const double weights = parameter_elements(unit, i, false), trained = parameter_elements(unit, i, true);
  const double accumulation = makes_logits(unit, i) ? rates.head_accumulation : rates.accumulation;
  if (rates.weight_cast > 0) time.forward = time.forward + traffic_cost(rates.weight_cast * weights, rates);
  const double backward = rates.weight_cast + accumulation;
  if (backward > 0) time.weight_gradient = time.weight_gradient + traffic_cost(backward * trained, rates);
}

// Additional traffic of a ring's attention. The results of a block are merged with earlier ones: in the forward the output, in
// the backward the gradients of the query and of the block's keys and values. Each is read together with the sum, which is
// written.
void add_merges(const UnitView& unit, int i, const DeviceRates& rates, OperatorTime& time) {
  const AttentionShape& a = unit.of(i).attention;
  if (a.blocks == 1) return;
  constexpr double kReadReadWritten = 3;
  const double times = kReadReadWritten * static_cast<double>(a.blocks - 1);
  const double output = unit.bytes(unit.op(i).outputs.front());
  const double block = static_cast<double>(unit.of(i).collective_bytes.base()) / static_cast<double>(a.blocks);
  time.forward = time.forward + traffic_cost(times * output, rates);
  time.input_gradient = time.input_gradient + traffic_cost(times * (output + block), rates);
  time.forward_launches *= static_cast<int>(a.blocks);
  time.backward_launches *= static_cast<int>(a.blocks);
}

// Heads that go to other ranks are brought together before, and put in order behind.
void add_reordered_heads(const UnitView& unit, int i, const DeviceRates& rates, OperatorTime& time) {
  constexpr double kCopies = 2 * 2;  // read and written, twice
  const Breakdown copies = traffic_cost(kCopies * unit.bytes(unit.op(i).outputs.front()), rates);
  time.forward = time.forward + copies;
  time.input_gradient = time.input_gradient + copies;
}

// What a scan's operations take longer than its traffic.
void add_scan(const OperatorWork& work, const DeviceRates& rates, OperatorTime& time) {
  const auto add = [&](const PassWork& pass, Breakdown& cost) {
    const Duration moved((pass.read + pass.written).base() / rates.memory.base()), made(pass.flops.base() * rates.scan);
    cost.compute = cost.total = std::max(made - moved, Duration(0));
  };
  add(work.forward, time.forward);
  add(work.input_gradient, time.input_gradient);
}

void time_operator(const UnitView& unit, int i, const OperatorKernels& kernels, const DeviceRates& rates, OperatorTime& time) {
  const OperatorWork& work = unit.of(i);
  switch (work.kind) {
    case OperatorClass::Gemm: {
      const bool narrow = is_narrow(unit, i, rates);
      const Recipe* recipe = rates.narrow.recipe;
      const int experts = rates.expert_products == ExpertProducts::Grouped ? 0 : unit.experts_of(i);
      const bool apart = experts > 0 && rates.expert_products == ExpertProducts::Loop;
      const DeviceRates forward = narrow_rates(rates, narrow && recipe->forward);
      add_products(time.forward, work.forward, forward, apart);
      add_products(time.input_gradient, work.input_gradient, narrow_rates(rates, narrow && recipe->input_gradient), apart);
      if (rates.loss_in_chunks && makes_logits(unit, i)) add_products(time.input_gradient, work.forward, forward);
      add_products(time.weight_gradient, work.weight_gradient, narrow_rates(rates, narrow && recipe->weight_gradient), apart);
      if (narrow) {
        const Casts casts = casts_of(unit, i, rates);
        time.forward = time.forward + traffic_cost(casts.forward, rates);
        time.input_gradient = time.input_gradient + traffic_cost(casts.backward, rates);
      }
      time.weight_products = static_cast<int>(work.weight_gradient.gemms.size()) * std::max(experts, 1);
      add_weight_traffic(unit, i, rates, time);
      if (const double packed = rates.unpacking * unit.frozen_weight(i); packed > 0) {  // before each product that reads it
        time.forward = time.forward + traffic_cost(packed, rates);
        if (!work.input_gradient.gemms.empty()) time.input_gradient = time.input_gradient + traffic_cost(packed, rates);
      }
      break;
    }
    case OperatorClass::Attention: {
      const AttentionCost core = attention_cost(work.attention, rates);
      time.forward = core.forward;
      time.input_gradient = core.backward;
      time.attention = true;
      time.causal = work.attention.causal;
      add_merges(unit, i, rates, time);
      break;
    }
    case OperatorClass::Collective:
      if (unit.op(i).among == Among::Context && unit.op(i).forward_collective == CollectiveKind::AllToAll)
        add_reordered_heads(unit, i, rates, time);
      break;
    case OperatorClass::Loss: {
      const double count = logits(unit, i);
      time.forward = traffic_cost(rates.loss_forward_bytes * count, rates);
      time.input_gradient = traffic_cost(rates.loss_backward_bytes * count, rates);
      break;
    }
    case OperatorClass::Elementwise:
      if (row_of(unit.op(i)).role == OperatorRole::Recurrent) add_scan(work, rates, time);
      break;
    default:
      break;
  }
  if (part_of_loss(unit, i)) return;
  const double factor = is_replicated(unit, i) ? rates.replicated_factor : rates.elementwise_factor;
  time.forward = time.forward + traffic_cost(factor * kernels.forward, rates);
  time.input_gradient = time.input_gradient + traffic_cost(factor * kernels.backward, rates);
}

// The operator with a backward collective (Megatron's f) whose result operator i reads; -1: none.
int enters_through(const UnitView& unit, int i) {
  int found = -1;
  for_each_operand(unit.op(i), [&](int t) {
    if (!unit.inside(t)) return;
    const int maker = unit.tensor(t).producer - unit.first;
    const Operator& op = unit.op(maker);
    if (op.among == Among::Tensor && op.backward_collective != CollectiveKind::None &&
        op.backward_collective != CollectiveKind::AllGather)
      found = maker;
  });
  return found;
}

// An embedding unit (look-ups and their sum, no products) as a whole: its output's bytes times the constants above.
void time_embedding(const UnitView& unit, const DeviceRates& rates, UnitTemplate& result) {
  double output = 0;
  for (int i = 0; i < unit.size(); ++i)
    for (int t : unit.op(i).outputs) output = std::max(output, unit.activation(t) ? unit.bytes(t) : 0.0);
  for (OperatorTime& time : result.operators) time.forward = time.input_gradient = Breakdown{};
  for (int i = 0; i < unit.size(); ++i) {
    if (unit.of(i).kind != OperatorClass::Embedding) continue;
    OperatorTime& time = result.operators[i];
    time.forward = traffic_cost(kEmbeddingForward * output, rates);
    if (parameter_elements(unit, i, true) > 0) time.input_gradient = traffic_cost(kEmbeddingBackward * output, rates);
    return;
  }
}

bool routes(const Operator& op) {
  const OperatorRole role = row_of(op).role;
  return role == OperatorRole::Routing || role == OperatorRole::ExpertRows || role == OperatorRole::Regroup;
}

void mark_experts(const UnitView& unit, const DeviceRates& rates, UnitTemplate& result) {
  const auto [first, end] = unit.between_experts();
  if (first == end) return;
  result.dispatch = first;
  int experts = 1;
  for (int i = 0; i < unit.size(); ++i) {
    experts = std::max(experts, unit.experts_of(i));
    result.operators[i].routes = routes(unit.op(i));
  }
  for (int i = first; i < end; ++i) {
    OperatorTime& time = result.operators[i];
    time.by_expert = i > first;
    time.for_each_expert = launches_for_each_expert(unit, i, rates);
    time.each = time.for_each_expert && rates.expert_products == ExpertProducts::Each;
    time.experts = experts;
  }
}

}  // namespace

double logits(const UnitView& unit, int i) {
  if (unit.of(i).kind != OperatorClass::Loss) return 0;
  double largest = 0;
  for_each_operand(unit.op(i), [&](int t) {
    if (unit.activation(t)) largest = std::max(largest, static_cast<double>(unit.tensor(t).elements()));
  });
  return largest;
}

UnitTemplate make_template(const UnitView& unit, const std::vector<int>& externals, const DeviceRates& rates) {
  UnitTemplate result;
  const std::vector<OperatorKernels> kernels = unit_kernels(unit, rates);
  bool products = false, lookup = false;
  for (int i = 0; i < unit.size(); ++i) {
    products |= unit.of(i).kind == OperatorClass::Gemm;
    lookup |= unit.of(i).kind == OperatorClass::Embedding;
    result.loss |= unit.of(i).kind == OperatorClass::Loss;
    result.head |= unit.of(i).kind == OperatorClass::Gemm && makes_logits(unit, i);
    result.attention |= unit.of(i).kind == OperatorClass::Attention;
  }
  result.embedding = lookup && !products;
  result.operators.resize(unit.size());
  for (int i = 0; i < unit.size(); ++i) {
    OperatorTime& time = result.operators[i];
    const Operator& op = unit.op(i);
    time.counted = unit.of(i).kind != OperatorClass::View && unit.of(i).kind != OperatorClass::Collective;
    result.counted += time.counted;
    // Whether rows are sorted by expert follows from how many experts a rank holds, of which a layer's number knows nothing.
    result.sharing += time.counted && row_of(op).role != OperatorRole::Regroup;
    static_cast<KernelCounts&>(time) = kernels[i];
    time.residual = adds_input(unit, i);
    if (const int entry = unit.of(i).kind == OperatorClass::Gemm ? enters_through(unit, i) : -1; entry >= 0) {
      time.enters_parallel = true;
      ++result.operators[entry].products_behind;
    }
    time.among = op.among;
    if (unit.graph->degree(op.among) > 1) {
      time.forward_collective = op.forward_collective;
      time.backward_collective = op.backward_collective;
    }
    const int collectives =
        (time.forward_collective != CollectiveKind::None) + (time.backward_collective != CollectiveKind::None);
    if (collectives > 0) count_collectives(unit, i, rates, time);
    if (op.among == Among::Tensor) result.collectives += collectives;
    time_operator(unit, i, kernels[i], rates, time);
  }
  mark_experts(unit, rates, result);
  if (result.embedding) time_embedding(unit, rates, result);
  count_memory(unit, externals, rates, result);
  return result;
}

}  // namespace panpipe
