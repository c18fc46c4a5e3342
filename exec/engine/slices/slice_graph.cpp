#include "exec/engine/slices/slice_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "costmodel/workload/attention_operator.hpp"

namespace panpipe::exec {
namespace {

// Can what one token becomes be computed from the tokens before it?
void check_looks_back_only(const OperatorGraph& graph) {
  bool attends = false;
  for (const Operator& op : graph.operators) {
    if (!is_attention(op)) continue;
    attends = true;
    if (!attention_settings(op).causal)
      throw InputError(
          fmt::format("{} cannot be cut into slices of the sequence: the attention of '{}' also looks ahead, at "
                      "slices that are not there yet",
                      graph.name, op.module));
  }
  if (!attends) throw InputError(fmt::format("{} cannot be cut into slices of the sequence: it has no attention", graph.name));
  check_parts_of_sequence(graph, "cut into slices of the sequence");
}

}  // namespace

void check_parts_of_sequence(const OperatorGraph& graph, std::string_view how) {
  for (const Operator& op : graph.operators) {
    const Along along = row_of(op).along;
    if (along == Along::Unknown || along == Along::Mixed)
      throw InputError(
          fmt::format("{} cannot be {}: what {} of '{}' makes of a token depends on other tokens in a way that has "
                      "no rule for parts of a sequence",
                      graph.name, how, op.target, op.module));
  }
}

int cut_dimension(const Shape& whole, const Shape& part, int parts) {
  if (whole.size() != part.size()) return -2;
  int found = -1;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (whole[d] == part[d]) continue;
    if (found >= 0 || part[d] * parts != whole[d]) return -2;
    found = static_cast<int>(d);
  }
  return found;
}

SliceGraph slice_graph(const WorkloadRequest& request, const WorkloadShape& shape, const OperatorGraph& whole, int splits) {
  if (!request.pt2_file.empty())
    throw InputError("an exported model cannot be cut into slices of the sequence: it is a program for whole sequences");
  check_looks_back_only(whole);
  const std::int64_t sequence = whole.tensors[whole.inputs.front()].shape.at(1);
  if (sequence % splits != 0)
    throw InputError(fmt::format("sequences of {} tokens cannot be cut into {} equal slices", sequence, splits));

  WorkloadRequest shorter = request;
  shorter.sequence = static_cast<int>(sequence / splits);
  SliceGraph slice{std::move(*make_workload(shorter, shape).graph), {}};
  OperatorGraph& graph = slice.graph;
  bool same = graph.operators.size() == whole.operators.size() && graph.tensors.size() == whole.tensors.size();
  for (std::size_t i = 0; same && i < graph.operators.size(); ++i) {
    Operator& op = graph.operators[i];
    same = op.unit == whole.operators[i].unit;
    if (!is_attention(op) || !is_attention(whole.operators[i])) {
      same = same && op.target == whole.operators[i].target;
      continue;
    }
    // A window that is no shorter than a slice still ends inside the sequence.
    op.target = whole.operators[i].target;
    op.arguments = whole.operators[i].arguments;
  }
  slice.cut.assign(graph.tensors.size(), -1);
  for (std::size_t t = 0; same && t < graph.tensors.size(); ++t) {
    const Tensor& tensor = whole.tensors[t];
    if (tensor.role == TensorRole::Activation) continue;
    const int cut = cut_dimension(tensor.shape, graph.tensors[t].shape, splits);
    same = graph.tensors[t].name == tensor.name && (cut != -2 || tensor.role == TensorRole::Parameter);
    if (tensor.role != TensorRole::Parameter) slice.cut[t] = cut;
    // A table of positions is as long as the sequence, and a slice reads its rows: what is kept is kept whole.
    if (tensor.role != TensorRole::Input) graph.tensors[t] = tensor;
  }
  PANPIPE_CHECK(same, fmt::format("{} of a shorter sequence is another graph", whole.name));
  return slice;
}

// The gradients of keys and values flow from slice to slice where the backward runs, which on a stage without inputs that want
// gradients is W.
void check_slice_order(const Schedule& schedule) {
  if (schedule.splits == 1) return;
  std::map<std::pair<int, int>, int> last;  // (stage, microbatch) -> slice of the latest W
  for (const std::vector<Action>& row : schedule.order)
    for (const Action& action : row) {
      if (action.kind != ActionKind::W) continue;
      const auto [found, first] = last.try_emplace({action.stage, action.microbatch}, schedule.splits);
      if (action.split != found->second - 1)
        throw InputError(
            fmt::format("{} comes before the W of the slice behind it: slices are run backwards from the last to "
                        "the first, their W too",
                        to_text(action)));
      found->second = action.split;
    }
}

int labels_of(const OperatorGraph& graph) {
  const auto producer = [&](int tensor) { return graph.tensors[tensor].producer; };
  if (graph.loss < 0 || producer(graph.loss) < 0) return -1;
  int tensor = tensor_argument(graph.operators[producer(graph.loss)], "target");
  while (tensor >= 0 && producer(tensor) >= 0)  // through views
    tensor = first_tensor(graph.operators[producer(tensor)]);
  return tensor >= 0 && graph.tensors[tensor].role == TensorRole::Input ? tensor : -1;
}

}  // namespace panpipe::exec
