#include "costmodel/cost/unit_view.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "base/bits.hpp"
#include "costmodel/workload/aliases.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "costmodel/workload/work_of_part.hpp"

namespace panpipe {
namespace {

// One multiplication and a shift per value: enough to distinguish a model's few dozen kinds of units in 64 bits.
std::uint64_t mix(std::uint64_t state, std::uint64_t value) {
  const std::uint64_t z = (state ^ value) * 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio
  return z ^ (z >> 29);
}

// FNV-1a. std::hash has the width of a pointer, which WebAssembly has 32 bits for: units would meet.
std::uint64_t of_text(std::string_view text) {
  std::uint64_t state = 0xCBF29CE484222325ULL;
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return state;
}

std::uint64_t of_number(double value) { return value == 0 ? 0 : bits_of(value); }  // -0 is 0

// Exported graphs name no layers: there a block with attention in it is one. Built-in ones do.
std::vector<bool> transformer_units(const OperatorGraph& graph) {
  std::set<std::string_view> blocks;
  for (const Operator& op : graph.operators) {
    const std::string& block = graph.units[op.unit].block;
    if (block.empty()) continue;
    const OperatorRole role = row_of(op).role;
    if (role == OperatorRole::Attention || role == OperatorRole::Softmax) blocks.insert(block);
  }
  std::vector<bool> transformer;
  for (const UnitInfo& unit : graph.units)
    transformer.push_back(unit.layer >= 0 || (!graph.values_file.empty() && blocks.contains(unit.block)));
  return transformer;
}

// A normalization may be in another unit than the products that read it. Collectives and identities pass it through.
std::vector<bool> normalized_tensors(const OperatorGraph& graph) {
  std::vector<bool> normalized(graph.tensors.size(), false);
  for (const Operator& op : graph.operators) {
    int source = viewed_tensor(graph, op);
    const OperatorRow& row = row_of(op);
    if (source < 0 && row.between_ranks()) source = first_operand(op);
    const bool made = row.role == OperatorRole::Norm;
    const bool passed = source >= 0 && normalized[source];
    for (const int out : op.outputs) normalized[out] = made || passed;
  }
  return normalized;
}

// A router's weights and the head's stay in 2 bytes.
std::vector<int> weights_of_products(const OperatorGraph& graph, const TensorUse& use) {
  std::vector<bool> routes(graph.tensors.size(), false);
  for (const Operator& op : graph.operators)
    if (row_of(op).role == OperatorRole::Routing) for_each_operand(op, [&](int t) { routes[t] = true; });
  std::vector<int> result(graph.operators.size(), -1);
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    const std::string_view weight = row_of(op).traits.weight;
    if (weight.empty() || !use.transformer[op.unit]) continue;
    const auto made = static_cast<std::size_t>(op.outputs.front());
    if (use.logits[made] || routes[made]) continue;
    const int t = tensor_argument(op, weight);
    if (t < 0) continue;
    const Tensor& tensor = graph.tensors[t];
    if (tensor.role == TensorRole::Parameter && tensor.shape.size() >= 2) result[i] = t;
  }
  return result;
}

// Every user of a tensor makes a gradient of it; views that take parts of it make one of their part.
void find_gradients(const OperatorGraph& graph, TensorUse& use) {
  use.gradients.assign(graph.tensors.size(), 0);
  use.first_user.assign(graph.tensors.size(), -1);
  const auto bytes = [&](int t) { return static_cast<double>(graph.tensors[t].bytes().base()); };
  for (int i = 0; i < static_cast<int>(graph.operators.size()); ++i) {
    const Operator& op = graph.operators[i];
    if (op.outputs.empty() || !graph.tensors[op.outputs.front()].requires_gradient) continue;
    double made = 0;
    for (const int out : op.outputs) made += bytes(out);
    const bool view = viewed_tensor(graph, op) >= 0;
    for_each_operand(op, [&](int t) {
      const Tensor& tensor = graph.tensors[t];
      if (tensor.role != TensorRole::Activation || !tensor.requires_gradient) return;
      int& first = use.first_user[t];
      if (first < 0) first = i;
      use.gradients[t] += view ? std::min(bytes(t), made) : bytes(t);
    });
  }
}

void number_blocks(const OperatorGraph& graph, TensorUse& use) {
  const std::string* last = nullptr;
  for (const auto& unit : graph.units) {
    const bool inside = !unit.block.empty();
    if (inside && (last == nullptr || *last != unit.block)) ++use.blocks;
    use.block.push_back(inside ? use.blocks - 1 : -1);
    last = inside ? &unit.block : nullptr;
  }
}

}  // namespace

TensorUse tensor_use(const OperatorGraph& graph) {
  TensorUse use;
  use.unit_range.assign(graph.units.size(), {0, 0});
  use.crosses.assign(graph.tensors.size(), false);
  int previous = -1;
  for (int i = 0; i < static_cast<int>(graph.operators.size()); ++i) {
    const Operator& op = graph.operators[i];
    auto& range = use.unit_range[op.unit];
    if (op.unit != previous) range.first = i;
    range.second = i + 1;
    previous = op.unit;
    for_each_operand(op, [&](int t) {
      const int producer = graph.tensors[t].producer;
      if (producer >= 0 && graph.operators[producer].unit != op.unit) use.crosses[t] = true;
    });
  }
  use.logits = logits_of(graph);
  use.normalized = normalized_tensors(graph);
  use.transformer = transformer_units(graph);
  number_blocks(graph, use);
  use.product_weight = weights_of_products(graph, use);
  find_gradients(graph, use);
  return use;
}

bool multiplies_narrow(const OperatorGraph& graph, const TensorUse& use, int op, const NarrowScope& scope) {
  if (scope.recipe == nullptr) return false;
  const int weight = use.product_weight[op], block = use.block[graph.operators[op].unit];
  if (weight < 0 || block < scope.bf16_first || block >= use.blocks - scope.bf16_last) return false;
  const auto sizes = graph.tensors[weight].shape.end() - 2;
  return sizes[0] % scope.recipe->multiple == 0 && sizes[1] % scope.recipe->multiple == 0;
}

std::uint64_t cost_hash(const OperatorGraph& graph, const TensorUse& use, int unit, const NarrowScope& scope,
                        std::uint64_t structure) {
  const int first = use.unit_range[unit].first, end = use.unit_range[unit].second;
  std::uint64_t state = mix(structure, use.transformer[unit]);
  const auto describe = [&](int t) {
    const auto index = static_cast<std::size_t>(t);
    const int user = use.first_user[index];
    const bool adds_up = user >= first && user < end;
    state = mix(state, use.logits[index]);
    state = mix(state, use.normalized[index]);
    state = mix(state, adds_up ? static_cast<std::uint64_t>(use.gradients[index]) : 0);
  };
  for (int i = first; i < end; ++i) {
    const Operator& op = graph.operators[i];
    state = mix(state, use.product_weight[i] >= 0);
    state = mix(state, multiplies_narrow(graph, use, i, scope));
    for_each_operand(op, describe);
    for (const int out : op.outputs) describe(out);
  }
  return state;
}

int UnitView::root(int t) const {
  while (inside(t)) {
    const int i = tensor(t).producer - first;
    const OperatorClass kind = of(i).kind;
    if (kind != OperatorClass::View && kind != OperatorClass::Collective) return t;
    if (op(i).forward_collective == CollectiveKind::AllToAll) return t;  // rows of other ranks
    const int source = first_operand(op(i));
    if (source < 0) return t;
    // A part of its input, or parts of other ranks: separate memory.
    if (kind == OperatorClass::Collective && bytes(t) < bytes(source)) return t;
    t = source;
  }
  return t;
}

double UnitView::own_bytes(int t) const {
  if (!inside(t)) return bytes(t);
  const Operator& maker = op(tensor(t).producer - first);
  const bool gathered = row_of(maker).role == OperatorRole::Collective && viewed_tensor(*graph, maker) >= 0;
  return bytes(gathered ? tensor_argument(maker, "self") : t);
}

int UnitView::experts_of(int i) const {
  if (row_of(op(i)).role != OperatorRole::ExpertProduct) return 0;
  return static_cast<int>(tensor(tensor_argument(op(i), "weight")).shape[0]);
}

std::pair<int, int> UnitView::between_experts() const {
  std::pair<int, int> range{0, 0};
  for (int i = 0; i < size(); ++i) {
    if (row_of(op(i)).role != OperatorRole::ExpertRows) continue;
    if (range.second == 0) range.first = i;
    range.second = i + 1;
  }
  return range;
}

UnitView view_of_unit(const OperatorGraph& graph, const TensorUse& use, int unit) {
  UnitView view;
  view.graph = &graph;
  view.use = &use;
  std::tie(view.first, view.end) = use.unit_range[unit];
  view.work = count_work(graph, view.first, view.end);
  return view;
}

std::uint64_t structure_hash(const OperatorGraph& graph, const TensorUse& use, int unit, std::vector<int>& externals) {
  const int first = use.unit_range[unit].first, end = use.unit_range[unit].second;
  externals.clear();
  externals.reserve(8);
  std::uint64_t state = mix(static_cast<std::uint64_t>(end - first), graph.units[unit].layer >= 0);
  state = mix(state, graph.units[unit].block.empty());
  const auto describe = [&](int t) {
    const Tensor& tensor = graph.tensors[t];
    state = mix(state, static_cast<std::uint64_t>(tensor.role) * 64 + static_cast<std::uint64_t>(tensor.dtype) * 4 +
                           (tensor.requires_gradient ? 2U : 0U) + (use.crosses[t] ? 1U : 0U));
    for (auto extent : tensor.shape) state = mix(state, static_cast<std::uint64_t>(extent));
  };
  // Tensors made inside by their distance to the maker (and their number among its results), others by first use.
  const auto add_tensor = [&](int t) {
    const int producer = graph.tensors[t].producer;
    if (producer >= first && producer < end) {
      const auto& results = graph.operators[producer].outputs;
      const auto number = static_cast<std::uint64_t>(t - results.front());
      state = mix(state, static_cast<std::uint64_t>(producer - first) * 2 + 1 + (number << 32));
      return;
    }
    auto found = std::find(externals.begin(), externals.end(), t);
    const bool is_new = found == externals.end();
    if (is_new) found = externals.insert(externals.end(), t);
    state = mix(state, static_cast<std::uint64_t>(found - externals.begin()) * 2);
    if (is_new) describe(t);
  };
  for (int i = first; i < end; ++i) {
    const Operator& op = graph.operators[i];
    state = mix(state, of_text(op.target));
    state =
        mix(state, static_cast<std::uint64_t>(op.forward_collective) * 8 + static_cast<std::uint64_t>(op.backward_collective));
    for (const Argument& argument : op.arguments) {
      state = mix(state, argument.index());
      std::visit(
          [&](const auto& value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, TensorRef>) add_tensor(value.tensor);
            if constexpr (std::is_same_v<T, TensorList>)
              for (int t : value.tensors)
                if (t >= 0) add_tensor(t);
            if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, bool> || std::is_same_v<T, DType>)
              state = mix(state, static_cast<std::uint64_t>(value));
            if constexpr (std::is_same_v<T, double>) state = mix(state, of_number(value));
            if constexpr (std::is_same_v<T, std::string>) state = mix(state, of_text(value));
            if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
              for (auto v : value) state = mix(state, static_cast<std::uint64_t>(v));
            if constexpr (std::is_same_v<T, std::vector<double>>)
              for (auto v : value) state = mix(state, of_number(v));
          },
          argument);
    }
    for (int t : op.outputs) describe(t);
  }
  return state;
}

}  // namespace panpipe
