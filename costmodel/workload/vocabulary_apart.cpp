#include "costmodel/workload/vocabulary_apart.hpp"

#include "base/error.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/operands.hpp"

namespace panpipe {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw InputError("its vocabulary cannot be cut over the stages: " + why,
                   "leave the option vocabulary out of the schedule, or train a language model with one head");
}

int operand_of_role(const OperatorGraph& graph, const Operator& op, TensorRole role) {
  int found = -1;
  for_each_operand(op, [&](int t) {
    if (found < 0 && graph.tensors[t].role == role) found = t;
  });
  return found;
}

// The first operator, which looks up the words.
int lookup_of(const OperatorGraph& graph) {
  const Operator& op = graph.operators.front();
  if (op.target != "aten::embedding" || operand_of_role(graph, op, TensorRole::Parameter) < 0)
    refuse("its first operator is not the lookup of an embedding, but " + op.target);
  return 0;
}

// The product whose result, and nothing else, the loss reads.
int product_of(const OperatorGraph& graph) {
  const Operator& loss = graph.operators[graph.tensors[graph.loss].producer];
  if (loss.target.find("cross_entropy") == std::string::npos) refuse("its loss is not one cross entropy, but " + loss.target);
  int at = graph.tensors[first_operand(loss)].producer;
  while (at >= 0 && graph.operators[at].target != "aten::linear") {
    const Operator& op = graph.operators[at];
    if (op.target != "aten::view" && op.target != "aten::_to_copy" && op.target != "aten::to.dtype")
      refuse("between head and loss stands " + op.target);
    at = graph.tensors[first_operand(op)].producer;
  }
  if (at < 0) refuse("its loss reads no product");
  return at;
}

void pad(OperatorGraph& graph, const Shape::value_type words, Shape::value_type padded, int first, int end) {
  const auto widen = [&](int t) {
    Tensor& tensor = graph.tensors[t];
    if (tensor.role == TensorRole::Parameter && !tensor.shape.empty() && tensor.shape[0] == words) tensor.shape[0] = padded;
    if (tensor.role == TensorRole::Activation && !tensor.shape.empty() && tensor.shape.back() == words)
      tensor.shape.back() = padded;
  };
  for (int i = first; i < end; ++i) {
    for_each_operand(graph.operators[i], widen);
    for (const int t : graph.operators[i].outputs) widen(t);
  }
}

}  // namespace

void set_vocabulary_apart(OperatorGraph& graph, int ranks) {
  PANPIPE_CHECK(graph.degrees.tensor == 1 && graph.degrees.context == 1, "a vocabulary is cut over whole ranks");
  if (graph.loss < 0 || graph.operators.empty()) refuse("it has no loss");
  const int lookup = lookup_of(graph), product = product_of(graph);
  const int words = operand_of_role(graph, graph.operators[lookup], TensorRole::Parameter);
  const std::int64_t rows = graph.tensors[words].full_shape.front();
  const int weight = operand_of_role(graph, graph.operators[product], TensorRole::Parameter);
  if (weight < 0 || graph.tensors[weight].full_shape.front() != rows) refuse("its head has other rows than its embedding");
  std::vector<UnitInfo> units = {{"vocabulary.embedding", "", -1}};
  int before = -1;
  for (int i = 0; i < static_cast<int>(graph.operators.size()); ++i) {
    Operator& op = graph.operators[i];
    const bool starts = i == lookup + 1 || op.unit != before;
    before = op.unit;
    if (i == product)
      units.push_back({"vocabulary.head", "", -1});
    else if (i > lookup && i < product && starts)
      units.push_back(graph.units[op.unit]);
    op.unit = static_cast<int>(units.size()) - 1;
  }
  graph.units = std::move(units);
  const std::int64_t padded = padded_vocabulary(rows, ranks);
  pad(graph, rows, padded, lookup, lookup + 1);
  pad(graph, rows, padded, product, static_cast<int>(graph.operators.size()));
}

VocabularyTensors vocabulary_tensors(const OperatorGraph& graph) {
  const Operator& lookup = graph.operators[lookup_of(graph)];
  const Operator& product = graph.operators[product_of(graph)];
  VocabularyTensors found;
  found.ids = operand_of_role(graph, lookup, TensorRole::Input);
  found.embedding = operand_of_role(graph, lookup, TensorRole::Parameter);
  found.embedded = lookup.outputs.front();
  found.hidden = operand_of_role(graph, product, TensorRole::Activation);
  found.head = operand_of_role(graph, product, TensorRole::Parameter);
  for_each_operand(product, [&](int t) {
    if (graph.tensors[t].role == TensorRole::Parameter && t != found.head) found.bias = t;
  });
  for (const int input : graph.inputs)
    if (graph.tensors[input].name == "labels") found.labels = input;
  if (found.ids < 0 || found.labels < 0) refuse("it does not read ids of words and labels");
  found.words = graph.tensors[found.embedding].full_shape.front();
  found.padded = graph.tensors[found.embedding].shape.front();
  return found;
}

}  // namespace panpipe
