#include "costmodel/workload/archive_prepare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

// Tensors an operator writes into: its first argument when it works in place, and running statistics in training.
std::vector<int> written_tensors(const Operator& op) {
  std::vector<int> written;
  if (works_in_place(op.target) && first_tensor(op) >= 0) written.push_back(first_tensor(op));
  for (const char* learns : {"training", "use_input_stats"})
    if (value_argument<bool>(op, learns).value_or(false))
      for (const char* statistic : {"running_mean", "running_var"})
        if (const int tensor = tensor_argument(op, statistic); tensor >= 0) written.push_back(tensor);
  return written;
}

}  // namespace

std::vector<int> memory_owners(const OperatorGraph& graph) {
  std::vector<int> owner(graph.tensors.size());
  for (std::size_t i = 0; i < owner.size(); ++i) owner[i] = static_cast<int>(i);
  for (const Operator& op : graph.operators) {
    const OperatorRow* row = find_row(op.target);
    if ((row == nullptr || row->traits.aliasing == Aliasing::Never) && !works_in_place(op.target)) continue;
    const int source = first_tensor(op);
    if (source < 0) continue;
    for (const int made : op.outputs) owner[made] = owner[source];
  }
  return owner;
}

void mark_written_and_gradients(OperatorGraph& graph) {
  const std::vector<int> owner = memory_owners(graph);
  std::vector<std::vector<int>> views(graph.tensors.size());  // activations by the tensor they look at
  for (std::size_t i = 0; i < owner.size(); ++i) views[owner[i]].push_back(static_cast<int>(i));
  const auto tensor = [&](int index) -> Tensor& { return graph.tensors[index]; };
  for (Tensor& one : graph.tensors)
    if (one.role == TensorRole::Activation) one.requires_gradient = false;
  for (const Operator& op : graph.operators) {
    bool gradient = false;
    for_each_operand(op, [&](int index) { gradient |= tensor(index).requires_gradient; });
    const OperatorRow* row = find_row(op.target);
    gradient &= op.recorded && (row == nullptr || !row->traits.detaches);
    for (const int made : op.outputs) tensor(made).requires_gradient = gradient && differentiable(tensor(made).dtype);
    for (const int target : written_tensors(op)) {
      Tensor& owned = tensor(owner[target]);
      if (owned.role == TensorRole::Parameter)
        throw InputError(
            fmt::format("{}: {} in module '{}' writes into the parameter '{}', which only the optimizer may; make it "
                        "a buffer",
                        graph.values_file, op.target, op.module, owned.name));
      if (owned.role == TensorRole::Buffer) owned.written = true;
      // Every view of this memory now depends on the written value.
      if (gradient && owned.role == TensorRole::Activation)
        for (const int view : views[owner[target]])
          if (differentiable(tensor(view).dtype)) tensor(view).requires_gradient = true;
    }
  }
}

void drop_dead_operators(OperatorGraph& graph) {
  const std::vector<int> owner = memory_owners(graph);
  std::vector<bool> wanted(graph.tensors.size(), false), memory_wanted(graph.tensors.size(), false);
  const auto want = [&](int tensor) {
    wanted[tensor] = true;
    memory_wanted[owner[tensor]] = true;
  };
  want(graph.loss);
  std::vector<bool> keep(graph.operators.size(), false);
  for (std::size_t i = graph.operators.size(); i-- > 0;) {
    const Operator& op = graph.operators[i];
    bool alive = std::any_of(op.outputs.begin(), op.outputs.end(), [&](int made) { return wanted[made]; });
    for (const int target : written_tensors(op)) {
      const int owned = owner[target];
      alive |= memory_wanted[owned] || graph.tensors[owned].role == TensorRole::Buffer;
    }
    if (!alive) continue;
    keep[i] = true;
    for_each_operand(op, want);
  }
  std::vector<int> new_tensor(graph.tensors.size(), -1), new_operator(graph.operators.size(), -1);
  OperatorGraph kept;
  for (std::size_t i = 0, next = 0; i < keep.size(); ++i)
    if (keep[i]) new_operator[i] = static_cast<int>(next++);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    Tensor& tensor = graph.tensors[t];
    if (tensor.producer >= 0 && new_operator[tensor.producer] < 0) continue;
    new_tensor[t] = static_cast<int>(kept.tensors.size());
    if (tensor.producer >= 0) tensor.producer = new_operator[tensor.producer];
    if (tensor.tied_to >= 0) tensor.tied_to = new_tensor[tensor.tied_to];
    kept.tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    Operator& op = kept.operators.emplace_back(std::move(graph.operators[i]));
    for_each_operand(op, [&](int& tensor) { tensor = new_tensor[tensor]; });
    for (int& made : op.outputs) made = new_tensor[made];
  }
  for (int& input : graph.inputs) input = new_tensor[input];
  graph.loss = new_tensor[graph.loss];
  graph.tensors = std::move(kept.tensors);
  graph.operators = std::move(kept.operators);
}

std::vector<WrittenSpan> written_spans(const OperatorGraph& graph) {
  const std::vector<int> owner = memory_owners(graph);
  struct Life {
    int first_use = -1, last_use = -1, first_write = -1, last_write = -1;
  };
  std::vector<Life> lives(graph.tensors.size());
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const int at = static_cast<int>(i);
    const auto use = [&](int tensor) {
      Life& life = lives[owner[tensor]];
      if (life.first_use < 0) life.first_use = at;
      life.last_use = at;
    };
    for_each_operand(graph.operators[i], use);
    for (const int made : graph.operators[i].outputs) use(made);
    for (const int target : written_tensors(graph.operators[i])) {
      Life& life = lives[owner[target]];
      if (life.first_write < 0) life.first_write = at;
      life.last_write = at;
    }
  }
  std::vector<WrittenSpan> spans;
  for (std::size_t t = 0; t < lives.size(); ++t) {
    const Life& life = lives[t];
    if (life.last_write < 0) continue;
    // A buffer lives on one rank from its first use to its last; an input's later readers must see what was written.
    const TensorRole role = graph.tensors[t].role;
    spans.push_back({static_cast<int>(t), role == TensorRole::Input ? life.first_write : life.first_use,
                     role == TensorRole::Activation ? life.last_write : life.last_use});
  }
  return spans;
}

namespace {

// Per operator: may a unit begin here? Not while a tensor is still being written.
std::vector<bool> allowed_starts(const OperatorGraph& graph) {
  std::vector<bool> allowed(graph.operators.size(), true);
  for (const WrittenSpan& span : written_spans(graph))
    for (int at = span.first + 1; at <= span.last; ++at) allowed[at] = false;
  return allowed;
}

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    parts.push_back(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return parts;
}

bool is_number(std::string_view part) { return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos; }

std::string joined(const std::vector<std::string_view>& parts, std::size_t count) {
  std::string path;
  for (std::size_t i = 0; i < std::min(count, parts.size()); ++i) {
    if (i > 0) path += '.';
    path += parts[i];
  }
  return path;
}

// Modules that wrap nearly all of the model give no hint for cuts: the length of their common path.
std::size_t wrapping_depth(const std::vector<std::vector<std::string_view>>& paths) {
  constexpr double kNearlyAll = 0.8;
  std::size_t depth = 0, inside = 0;
  for (const auto& path : paths) inside += path.empty() ? 0 : 1;
  for (;; ++depth) {
    std::map<std::string, std::size_t> children;
    for (const auto& path : paths)
      if (path.size() > depth) ++children[joined(path, depth + 1)];
    const auto largest =
        std::max_element(children.begin(), children.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (largest == children.end() || static_cast<double>(largest->second) < kNearlyAll * static_cast<double>(inside))
      return depth;
    const auto last = largest->first.rfind('.');
    if (is_number(std::string_view(largest->first).substr(last == std::string::npos ? 0 : last + 1))) return depth;
  }
}

struct Place {
  std::string unit, block;
};

// A block is an element of a list of modules that itself has modules inside (a transformer layer, a residual block): the
// innermost such; or, in a plain sequence of layers, the element. A unit is a module directly inside the block.
Place place_of(const std::vector<std::string_view>& path, std::size_t wrapping, const std::set<std::string>& composite) {
  std::size_t block = 0;
  for (std::size_t d = 0; d < path.size(); ++d)
    if (is_number(path[d]) && (block == 0 || composite.count(joined(path, d + 1)) > 0)) block = d + 1;
  if (block > 0) return {joined(path, block + 1), joined(path, block)};
  return {joined(path, wrapping + 1), ""};
}

}  // namespace

void make_units(OperatorGraph& graph) {
  std::vector<std::vector<std::string_view>> paths;
  for (const Operator& op : graph.operators) paths.push_back(parts_of(op.module));
  std::set<std::string> composite;
  for (const auto& path : paths)
    for (std::size_t d = 0; d + 1 < path.size(); ++d)
      if (is_number(path[d])) composite.insert(joined(path, d + 1));
  const std::size_t wrapping = wrapping_depth(paths);
  const std::vector<bool> allowed = allowed_starts(graph);
  std::set<std::string> used;
  Place current;
  graph.units.clear();
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const Place place = place_of(paths[i], wrapping, composite);
    // Operators between the modules of a block (a residual sum) stay with the module before them.
    const bool between = place.unit == place.block && !place.block.empty() && place.block == current.block;
    const bool same = place.unit == current.unit && place.block == current.block;
    if (graph.units.empty() || (!same && !between && allowed[i])) {
      current = place;
      std::string name = place.unit.empty() ? "model" : place.unit;
      for (int number = 2; !used.insert(name).second; ++number)
        name = fmt::format("{}#{}", place.unit.empty() ? "model" : place.unit, number);
      graph.units.push_back({name, place.block, -1});
    }
    graph.operators[i].unit = static_cast<int>(graph.units.size()) - 1;
  }
}

}  // namespace panpipe
