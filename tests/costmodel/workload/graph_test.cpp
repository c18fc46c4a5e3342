// Does check() find broken graphs, and does the text form show what there is?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/workload/workload.hpp"

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
  try {
    graph.check();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
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

// The dispatcher wants every argument of the schema: as many as native_functions.yaml lists.
TEST(Graph, OperatorsCarryAllArgumentsOfTheirSchema) {
  const std::vector<std::pair<std::string, std::size_t>> schemas = {{"aten::linear", 3},
                                                                    {"aten::layer_norm", 6},
                                                                    {"aten::rms_norm", 4},
                                                                    {"aten::embedding", 5},
                                                                    {"aten::gelu", 2},
                                                                    {"aten::add.Tensor", 3},
                                                                    {"aten::mul.Tensor", 2},
                                                                    {"aten::dropout", 3},
                                                                    {"aten::scaled_dot_product_attention", 8},
                                                                    {"aten::view", 2},
                                                                    {"aten::reshape", 2},
                                                                    {"aten::transpose.int", 3},
                                                                    {"aten::permute", 2},
                                                                    {"aten::unsqueeze", 2},
                                                                    {"aten::expand", 3},
                                                                    {"aten::select.int", 3},
                                                                    {"aten::slice.Tensor", 5},
                                                                    {"aten::split.Tensor", 3},
                                                                    {"aten::cat", 2},
                                                                    {"aten::to.dtype", 5},
                                                                    {"aten::conv2d", 7},
                                                                    {"aten::group_norm", 6},
                                                                    {"aten::silu", 1},
                                                                    {"aten::cross_entropy_loss", 6},
                                                                    {"aten::mse_loss", 3},
                                                                    {"aten::neg", 1},
                                                                    {"aten::tanh", 1},
                                                                    {"aten::cos", 1},
                                                                    {"aten::sin", 1},
                                                                    {"aten::upsample_nearest2d.vec", 3},
                                                                    {"aten::sub.Tensor", 3},
                                                                    {"aten::lt.Scalar", 2},
                                                                    {"aten::ge.Scalar", 2},
                                                                    {"aten::logical_or", 2},
                                                                    {"aten::masked_fill.Scalar", 3}};
  for (const char* model : {"gpt2", "llama2-70b", "bert-base", "vit-l-16", "sdxl-unet"})
    for (int degree : {1, 4}) {
      if (degree > 1 && std::string(model) == "sdxl-unet") continue;
      WorkloadRequest request;
      request.model = model;
      request.dropout = 0.1;
      const Workload workload = make_workload(request, {.microbatch = 1, .tensor_degree = degree, .precision = Precision::Bf16});
      for (const Operator& op : workload.graph->operators) {
        if (op.target.starts_with("panpipe::")) continue;
        bool found = false;
        for (const auto& [target, count] : schemas)
          if (target == op.target) {
            found = true;
            EXPECT_EQ(op.arguments.size(), count) << target;
          }
        EXPECT_TRUE(found) << op.target;
      }
    }
}

}  // namespace
}  // namespace panpipe
