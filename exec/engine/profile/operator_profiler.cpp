#include "exec/engine/profile/operator_profiler.hpp"

#include <ATen/SequenceNumber.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_set>

#include "costmodel/workload/operands.hpp"
#include "exec/engine/stage/stack_tensors.hpp"

namespace panpipe::exec {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

struct Samples {
  std::vector<double> forward, backward;
  std::int64_t saved = 0;
};

// Watches a forward: when each operator ran, which of autograd's nodes are its own, what it left alive.
class ForwardWatch final : public OperatorObserver {
 public:
  ForwardWatch(const Stopwatch& watch, const DeviceMemory& memory) : watch_(watch), memory_(memory) {}

  // What was there before.
  void note_given(const std::vector<at::Tensor>& values) {
    for (const at::Tensor& value : values) note(value, -1);
  }

  void before(int) override {
    watch_.wait();
    live_ = memory_.live();
    nodes_ = at::sequence_number::peek();
    start_ = std::chrono::steady_clock::now();
  }
  void after(int op, const std::vector<c10::IValue>& results) override {
    watch_.wait();
    seconds_[op] = seconds_since(start_);
    first_node_of_[nodes_] = op;
    std::int64_t made = 0;
    for (const at::Tensor& result : tensors_of(results)) made += note(result, op);
    inside_[op] = memory_.live() - live_ - made;  // what autograd keeps and no other operator sees
  }

  const std::map<int, double>& seconds() const { return seconds_; }
  // -1: no operator's (an accumulation into a parameter).
  int operator_of(const Node& node) const {
    const auto next = first_node_of_.upper_bound(node.sequence_nr());
    return next == first_node_of_.begin() || node.sequence_nr() >= at::sequence_number::peek() ? -1 : std::prev(next)->second;
  }
  // Once nothing but autograd holds what the forward made.
  std::int64_t saved_by(int op) const {
    std::int64_t bytes = inside_.at(op);
    for (const Made& made : made_)
      if (made.op == op && !made.memory.expired()) bytes += made.bytes;
    return bytes;
  }

 private:
  struct Made {
    int op;
    c10::weak_intrusive_ptr<c10::StorageImpl> memory;  // its address is not used again while this lives
    std::int64_t bytes;
  };
  // Bytes of memory that was not seen before.
  std::int64_t note(const at::Tensor& tensor, int op) {
    if (!tensor.has_storage() || !seen_.insert(tensor.storage().unsafeGetStorageImpl()).second) return 0;
    const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
    made_.push_back({op, tensor.storage().getWeakStorageImpl(), bytes});
    return bytes;
  }

  const Stopwatch& watch_;
  const DeviceMemory& memory_;
  std::chrono::steady_clock::time_point start_;
  std::int64_t live_ = 0;
  std::uint64_t nodes_ = 0;
  std::map<int, double> seconds_;
  std::map<std::uint64_t, int> first_node_of_;  // autograd's number -> operator that ran then
  std::map<int, std::int64_t> inside_;
  std::vector<Made> made_;
  std::unordered_set<const void*> seen_;
};

// Around a node of the backward.
struct NodeTimes {
  const Stopwatch& watch;
  std::chrono::steady_clock::time_point start{};
  std::map<int, double> seconds{};  // by operator
};

struct NodeStarts : torch::autograd::FunctionPreHook {
  explicit NodeStarts(NodeTimes& to) : times(to) {}
  variable_list operator()(const variable_list& gradients) override {
    times.watch.wait();
    times.start = std::chrono::steady_clock::now();
    return gradients;
  }
  NodeTimes& times;
};

struct NodeEnds : torch::autograd::FunctionPostHook {
  NodeEnds(NodeTimes& to, int of) : times(to), op(of) {}
  variable_list operator()(const variable_list& gradients, const variable_list&) override {
    times.watch.wait();
    times.seconds[op] += seconds_since(times.start);
    return gradients;
  }
  NodeTimes& times;
  int op;
};

void watch_nodes(const std::vector<torch::autograd::Edge>& roots, const ForwardWatch& forward, NodeTimes& times) {
  std::unordered_set<Node*> seen;
  std::vector<Node*> next;
  const auto reach = [&](const torch::autograd::Edge& edge) {
    if (edge.function && seen.insert(edge.function.get()).second) next.push_back(edge.function.get());
  };
  for (const auto& root : roots) reach(root);
  while (!next.empty()) {
    Node* node = next.back();
    next.pop_back();
    for (const auto& edge : node->next_edges()) reach(edge);
    const int op = forward.operator_of(*node);
    if (op < 0) continue;
    node->add_pre_hook(std::make_unique<NodeStarts>(times));
    node->add_post_hook(std::make_unique<NodeEnds>(times, op));
  }
}

std::string shapes_text(const OperatorGraph& graph, const Operator& op) {
  const auto shape = [&](int tensor) {
    const Shape& of = graph.tensors[tensor].shape;
    return of.empty() ? std::string("scalar") : fmt::format("{}", fmt::join(of, "x"));
  };
  std::vector<std::string> read, made;
  for_each_operand(op, [&](int tensor) { read.push_back(shape(tensor)); });
  for (const int tensor : op.outputs)
    if (tensor >= 0) made.push_back(shape(tensor));
  return fmt::format("{} -> {}", fmt::join(read, " "), fmt::join(made, " "));
}

}  // namespace

std::vector<MeasuredOperator> measure_operators(Stage& stage, const std::vector<at::Tensor>& inputs,
                                                const std::vector<at::Tensor>& kept,
                                                const std::vector<at::Tensor>& output_gradients, CallContext context,
                                                int repetitions, const Stopwatch& watch, const DeviceMemory& memory) {
  std::map<int, Samples> samples;
  for (int repetition = -1; repetition < repetitions; ++repetition) {  // one to warm up
    ForwardWatch forward(watch, memory);
    forward.note_given(inputs);
    forward.note_given(kept);
    context.observer = &forward;
    stage.forward(0, inputs, context);
    NodeTimes backward{watch};
    for (const auto& [op, seconds] : forward.seconds()) samples[op].saved = forward.saved_by(op);
    watch_nodes(stage.roots(0), forward, backward);
    stage.backward(0, output_gradients);
    if (repetition < 0) continue;
    for (const auto& [op, seconds] : forward.seconds()) {
      samples[op].forward.push_back(seconds);
      samples[op].backward.push_back(backward.seconds[op]);
    }
  }
  std::vector<MeasuredOperator> rows;
  for (auto& [op, found] : samples)
    rows.push_back(
        {op, robust_median(std::move(found.forward)).median, robust_median(std::move(found.backward)).median, found.saved});
  return rows;
}

std::string operators_csv(const OperatorGraph& graph, const std::vector<MeasuredOperator>& rows) {
  std::string text = "unit,module,operator,shapes,forward_us,backward_us,saved_bytes\n";
  for (const MeasuredOperator& row : rows) {
    const Operator& op = graph.operators[row.op];
    text += fmt::format("{},{},{},{},{:.3f},{:.3f},{}\n", graph.units[op.unit].name, op.module, op.target, shapes_text(graph, op),
                        row.forward * 1e6, row.backward * 1e6, row.saved);
  }
  return text;
}

}  // namespace panpipe::exec
