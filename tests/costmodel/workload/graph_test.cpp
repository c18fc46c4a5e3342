// Does check() find broken graphs, and does the text form show what there is?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

// loss = mse(linear(x, w), target), by hand.
OperatorGraph tiny() {
  OperatorGraph graph;
  graph.name = "tiny";
  const auto tensor = [&](const char* name, TensorRole role, Shape shape, int producer) {
    Tensor t;
    t.name = name;
    t.role = role;
    t.shape = shape;
    t.producer = producer;
    if (role == TensorRole::Parameter) {
      t.full_shape = shape;
      t.init = "zeros";
    }
    graph.tensors.push_back(t);
  };
  tensor("x", TensorRole::Input, {2, 3}, -1);
  tensor("target", TensorRole::Input, {2, 4}, -1);
  tensor("w", TensorRole::Parameter, {4, 3}, -1);
  tensor("y", TensorRole::Activation, {2, 4}, 0);
  tensor("loss", TensorRole::Activation, {}, 1);
  Operator linear;
  linear.target = "aten::linear";
  linear.arguments = {TensorRef{0}, TensorRef{2}, NoArgument{}};
  linear.outputs = {3};
  linear.module = "layer";
  Operator loss;
  loss.target = "aten::mse_loss";
  loss.arguments = {TensorRef{3}, TensorRef{1}, std::int64_t{1}};
  loss.outputs = {4};
  loss.module = "loss";
  graph.operators = {linear, loss};
  graph.units = {{"all", "", -1}};
  graph.inputs = {0, 1};
  graph.loss = 4;
  return graph;
}

template <class Break>
std::string fault_of(Break break_it) {
  OperatorGraph graph = tiny();
  break_it(graph);
  return test::fault_of<InternalError>([&] { graph.check(); });
}

TEST(Graph, AWholeGraphPasses) {
  EXPECT_EQ(fault_of([](OperatorGraph&) {}), "");
}

TEST(Graph, BrokenInvariantsAreFound) {
  using testing::HasSubstr;
  EXPECT_THAT(fault_of([](OperatorGraph& g) { std::swap(g.operators[0], g.operators[1]); }), HasSubstr("before it is made"));
  EXPECT_THAT(fault_of([](OperatorGraph& g) { g.operators[0].arguments[0] = TensorRef{9}; }), HasSubstr("reads tensor 9"));
  EXPECT_THAT(fault_of([](OperatorGraph& g) { g.operators[1].outputs = {3}; }), HasSubstr("'y' is made twice"));
  EXPECT_THAT(fault_of([](OperatorGraph& g) { g.operators[1].unit = 2; }), HasSubstr("out of unit order"));
  EXPECT_THAT(fault_of([](OperatorGraph& g) { g.units.push_back({"empty", "", -1}); }), HasSubstr("last unit"));
  EXPECT_THAT(fault_of([](OperatorGraph& g) { g.loss = 3; }), HasSubstr("the loss is not a scalar"));
  EXPECT_THAT(fault_of([](OperatorGraph& g) { g.inputs = {2}; }), HasSubstr("an input is not a tensor from the data"));
  EXPECT_THAT(fault_of([](OperatorGraph& g) { g.tensors[2].init.clear(); }), HasSubstr("parameter 'w' lacks"));
  EXPECT_THAT(fault_of([](OperatorGraph& g) { g.tensors[3].shape[0] = -1; }), HasSubstr("'y' has a dimension of -1"));
  EXPECT_THAT(fault_of([](OperatorGraph& g) { g.tensors[2].tied_to = 2; }), HasSubstr("tied to a later one"));
}

TEST(Graph, TextShowsOneLinePerOperator) {
  EXPECT_EQ(tiny().to_text(),
            "graph tiny (tensor parallel 1)\n"
            "  input %x: float32[2, 3]\n"
            "  input %target: float32[2, 4]\n"
            "  parameter %w: float32[4, 3]\n"
            "unit 0 all\n"
            "  %y: float32[2, 4] = aten::linear(%x, %w, None)  # layer\n"
            "  %loss: float32[] = aten::mse_loss(%y, %target, 1)  # loss\n"
            "return %loss\n");
}

}  // namespace
}  // namespace panpipe
