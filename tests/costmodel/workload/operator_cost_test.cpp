// Are work, traffic and tensors saved for the backward counted as in the formulas? Tensors and operators name what matters here;
// the rest has the defaults of their struct.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"
#include "tests/texts.hpp"

namespace panpipe {
namespace {

Workload gpt(int layers, int hidden, int heads, int sequence, const WorkloadShape& shape, double dropout = 0) {
  WorkloadRequest request;
  request.model = "gpt";
  request.layers = layers;
  request.hidden = hidden;
  request.heads = heads;
  request.vocabulary = 512;
  request.sequence = sequence;
  request.dropout = dropout;
  return make_workload(request, shape);
}

// Bytes that the units of one layer keep: every storage once, parameters free, a layer's own input counted with it.
std::int64_t kept_by_layer(const OperatorGraph& graph, int layer) {
  const auto works = count_work(graph);
  std::set<int> kept;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (graph.units[graph.operators[i].unit].layer != layer) continue;
    sum += works[i].saved_extra.base();
    for (int tensor : works[i].saved)
      if (graph.tensors[tensor].role != TensorRole::Parameter && kept.insert(tensor).second)
        sum += graph.tensors[tensor].bytes().base();
  }
  return sum;
}

// Korthikanti et al. 2022, eq. 1: a layer keeps s b h (34 + 5 a s / h) bytes in 16 bits. The fused attention core keeps the
// log-sum-exp (4 B a row of scores) instead of the scores' 5 a s^2 b; the norms' mean and deviation (2 x 4 B a row, two
// norms), which the paper leaves out, come on top.
TEST(OperatorCost, ALayerKeepsWhatKorthikantiCounts) {
  for (const auto& [b, s, h, a] : {std::tuple{1, 128, 64, 4}, std::tuple{3, 64, 96, 6}, std::tuple{2, 2048, 1024, 16}}) {
    const Workload workload = gpt(2, h, a, s, {.degrees = {.micro = b}, .precision = Precision::Bf16}, 0.1);
    const std::int64_t rows = std::int64_t{b} * s;
    EXPECT_EQ(kept_by_layer(*workload.graph, 1), 34 * rows * h + 4 * rows * a + 2 * 2 * 4 * rows) << b << " " << s << " " << h;
    // Without dropout its two masks of one byte are not there.
    const Workload dry = gpt(2, h, a, s, {.degrees = {.micro = b}, .precision = Precision::Bf16});
    EXPECT_EQ(kept_by_layer(*dry.graph, 1), 32 * rows * h + 4 * rows * a + 2 * 2 * 4 * rows);
  }
}

// Eq. 2: tensor parallelism divides 24 of the 34 (10 stay: two norms' inputs 4, inputs of the two column-parallel products 4,
// masks 2). Eq. 4: with sequence parallelism all 34 are divided.
TEST(OperatorCost, TensorParallelLayersKeepLess) {
  const std::int64_t b = 2, s = 256, h = 512, a = 8;
  for (int t : {2, 4, 8}) {
    const std::int64_t sbh = s * b * h, statistics = 2 * 2 * 4 * s * b, scores = 4 * s * b * a / t;
    const Workload plain = gpt(2, 512, 8, 256, {.degrees = {.tensor = t, .micro = 2}, .precision = Precision::Bf16}, 0.1);
    EXPECT_EQ(kept_by_layer(*plain.graph, 1), 10 * sbh + 24 * sbh / t + scores + statistics) << t;
    const Workload sequence =
        gpt(2, 512, 8, 256, {.degrees = {.tensor = t, .micro = 2, .sequence_parallel = true}, .precision = Precision::Bf16}, 0.1);
    EXPECT_EQ(kept_by_layer(*sequence.graph, 1), 34 * sbh / t + scores + statistics / t) << t;
  }
}

// A product's three passes take the same work, and their matrix shapes are the transposes of each other.
TEST(OperatorCost, ProductsOfAGptLayer) {
  const std::int64_t b = 2, s = 64, h = 96;
  const Workload workload = gpt(1, 96, 6, 64, {.degrees = {.micro = 2}});
  const auto works = count_work(*workload.graph);
  double forward = 0, input = 0, weight = 0;
  bool checked = false;
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Operator& op = workload.graph->operators[i];
    if (works[i].kind != OperatorClass::Gemm || workload.graph->units[op.unit].layer != 0) continue;
    forward += works[i].forward.flops.base();
    input += works[i].input_gradient.flops.base();
    weight += works[i].weight_gradient.flops.base();
    if (op.module != "transformer.h.0.mlp.c_fc") continue;
    checked = true;
    ASSERT_EQ(works[i].forward.gemms.size(), 1U);
    const GemmShape f = works[i].forward.gemms[0], g = works[i].input_gradient.gemms[0], w = works[i].weight_gradient.gemms[0];
    EXPECT_EQ((std::tuple{f.m, f.n, f.k}), (std::tuple{b * s, 4 * h, h}));
    EXPECT_EQ((std::tuple{g.m, g.n, g.k}), (std::tuple{b * s, h, 4 * h}));
    EXPECT_EQ((std::tuple{w.m, w.n, w.k}), (std::tuple{4 * h, h, b * s}));
    // x (b s h), weight (4 h h), bias (4 h) read; b s 4 h written; 4 bytes each
    EXPECT_EQ(works[i].forward.read.base(), 4 * (b * s * h + 4 * h * h + 4 * h));
    EXPECT_EQ(works[i].forward.written.base(), 4 * b * s * 4 * h);
    EXPECT_EQ(works[i].weight_gradient.written.base(), 4 * (4 * h * h + 4 * h));
  }
  EXPECT_TRUE(checked);
  // 12 h^2 weights: 2 x 12 h^2 per token and pass
  const double expected = 24.0 * static_cast<double>(b * s * h * h);
  EXPECT_DOUBLE_EQ(forward, expected);
  EXPECT_DOUBLE_EQ(input, expected);
  EXPECT_DOUBLE_EQ(weight, expected);
}

TEST(OperatorCost, AttentionCoreCountsAllScores) {
  const Workload workload = gpt(1, 96, 6, 64, {.degrees = {.micro = 2}});
  int cores = 0;
  for (const OperatorWork& work : count_work(*workload.graph)) {
    if (work.kind != OperatorClass::Attention) continue;
    ++cores;
    EXPECT_EQ(work.attention.batch, 2);
    EXPECT_EQ(work.attention.heads, 6);
    EXPECT_EQ(work.attention.kv_heads, 6);
    EXPECT_EQ(work.attention.head_size, 16);
    EXPECT_TRUE(work.attention.causal);
    EXPECT_DOUBLE_EQ(work.forward.flops.base(), 4.0 * 2 * 64 * 64 * 96);  // 4 b s^2 h
    EXPECT_DOUBLE_EQ(work.input_gradient.flops.base(), 8.0 * 2 * 64 * 64 * 96);
  }
  EXPECT_EQ(cores, 1);
}

// The whole step's matrix work is model_flops, except for the input gradient of what reads the data only.
TEST(OperatorCost, PassesAddUpToModelFlops) {
  for (const char* model : {"gpt2", "llama2-7b", "bert-base", "vit-l-16"}) {
    WorkloadRequest request;
    request.model = model;
    const Workload workload = make_workload(request, {});
    double sum = 0, missing = 0;
    for (const OperatorWork& work : count_work(*workload.graph)) {
      if (work.kind != OperatorClass::Gemm && work.kind != OperatorClass::Attention) continue;
      sum += work.forward.flops.base() + work.input_gradient.flops.base() + work.weight_gradient.flops.base();
      if (work.kind == OperatorClass::Gemm && work.input_gradient.gemms.empty()) missing += work.forward.flops.base();
    }
    EXPECT_NEAR((sum + missing) / workload.model_flops.base(), 1.0, 1e-12) << model;
  }
}

// One operator of class Loss per loss: it holds the traffic and the 4-byte log-softmax of all logits.
TEST(OperatorCost, TheLossKeepsItsLogitsInFourBytes) {
  for (int degree : {1, 2}) {
    const Workload workload = gpt(1, 96, 6, 64, {.degrees = {.tensor = degree, .micro = 2}, .precision = Precision::Bf16});
    int losses = 0;
    for (const OperatorWork& work : count_work(*workload.graph)) {
      if (work.kind != OperatorClass::Loss) continue;
      ++losses;
      const std::int64_t logits = 2 * 64 * 512 / degree;
      EXPECT_EQ(work.saved_extra.base(), 4 * logits);
      // cast 2 + 4, log-softmax 4 + 4, labels 8 B a row
      EXPECT_EQ((work.forward.read + work.forward.written).base(), (2 + 4 + 4 + 4) * logits + 8 * 2 * 64);
      EXPECT_EQ(work.collective_bytes.base(), degree == 1 ? 0 : 3 * 4 * 2 * 64);
    }
    EXPECT_EQ(losses, 1);
  }
}

TEST(OperatorCost, ViewsCostNothing) {
  const Workload workload = gpt(1, 96, 6, 64, {});
  const auto works = count_work(*workload.graph);
  int views = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (works[i].kind != OperatorClass::View) continue;
    ++views;
    EXPECT_EQ(works[i].forward.read + works[i].forward.written + works[i].saved_extra, Bytes(0));
    EXPECT_TRUE(works[i].saved.empty());
  }
  EXPECT_EQ(views, 1 + 3 * 2 + 2 + 2);  // split; view and transpose of q, k, v; transpose and reshape; two views at the loss
}

// %x [4, 6] in `from` (made by a product, trained) -> `op` -> %y in `to` -> gelu, which keeps its input.
struct OneOperator {
  OperatorGraph graph;
  OneOperator(const std::string& target, std::vector<Argument> more, std::vector<std::string> names = {},
              DType from = DType::Float32, DType to = DType::Float32) {
    const auto activation = [](const char* name, DType type, int producer) {
      return Tensor{.name = name, .role = TensorRole::Activation, .dtype = type, .shape = {4, 6}, .producer = producer};
    };
    graph.tensors = {{.name = "in", .role = TensorRole::Input, .dtype = from, .shape = {4, 6}},
                     {.name = "w", .role = TensorRole::Parameter, .dtype = from, .shape = {6, 6}},
                     activation("x", from, 0),
                     activation("y", to, 1),
                     activation("z", to, 2)};
    more.insert(more.begin(), TensorRef{2});
    if (!names.empty()) names.insert(names.begin(), "self");
    graph.operators = {{.target = "aten::linear", .arguments = {TensorRef{0}, TensorRef{1}}, .outputs = {2}},
                       {.target = target, .arguments = more, .outputs = {3}, .argument_names = names},
                       {.target = "aten::gelu", .arguments = {TensorRef{3}}, .outputs = {4}}};
  }
  OperatorWork work() const { return count_work(graph)[1]; }
  Bytes moved() const {
    const OperatorWork w = work();
    return w.forward.read + w.forward.written + w.input_gradient.read + w.input_gradient.written + w.weight_gradient.read +
           w.weight_gradient.written;
  }
  int kept_by_gelu() const { return count_work(graph)[2].saved.front(); }
};
constexpr int kX = 2, kY = 3;
constexpr std::int64_t kElements = 4 * 6;

// As torch.export names them.
TEST(OperatorCost, EveryViewMovesAndKeepsNothing) {
  for (const std::string& name :
       test::parts_of("view view.dtype reshape transpose.int permute swapaxes swapdims movedim.int movedim.intlist moveaxis.int "
                      "mT mH numpy_T matrix_H adjoint t ravel flatten.using_ints unflatten.int reshape_as view_as contiguous "
                      "expand expand_as broadcast_to unfold as_strided diagonal select.int slice.Tensor narrow chunk "
                      "split.Tensor split_with_sizes unbind.int tensor_split.sections tensor_split.indices hsplit.int vsplit.int "
                      "dsplit.int unsafe_chunk unsafe_split.Tensor squeeze squeeze.dim squeeze.dims squeeze_.dim unsqueeze "
                      "unsqueeze_ atleast_1d atleast_2d atleast_3d view_as_complex view_as_real real imag conj resolve_conj "
                      "resolve_neg positive detach detach_ alias lift_fresh _unsafe_view _reshape_alias")) {
    const std::string target = "aten::" + name;
    const OneOperator one(target, {});
    EXPECT_EQ(one.work().kind, OperatorClass::View) << target;
    EXPECT_EQ(one.moved(), Bytes(0)) << target;
    EXPECT_TRUE(one.work().saved.empty()) << target;
    EXPECT_EQ(one.work().saved_extra, Bytes(0)) << target;
    EXPECT_EQ(one.kept_by_gelu(), kX) << target << ": what looks at x is kept as x";
  }
}

TEST(OperatorCost, ConversionsToTheSameTypeAreViews) {
  const std::vector<std::string> dtype = {"dtype"}, copied = {"dtype", "copy"};
  for (const OneOperator& one :
       {OneOperator("aten::to.dtype", {DType::Float32}, dtype), OneOperator("aten::to.dtype", {DType::Float32}),
        OneOperator("aten::to.dtype_layout", {DType::Float32}, dtype),
        OneOperator("aten::to.device", {DeviceOfRank{}, DType::Float32}, {"device", "dtype"}),
        OneOperator("aten::type_as", {TensorRef{0}}, {"other"})}) {
    EXPECT_EQ(one.moved(), Bytes(0)) << one.graph.operators[1].target;
    EXPECT_EQ(one.kept_by_gelu(), kX) << one.graph.operators[1].target;
  }
  const OneOperator copy("aten::to.dtype", {DType::Float32, true}, copied);
  EXPECT_EQ(copy.moved(), Bytes(2 * (4 + 4) * kElements)) << "a copy was asked for";
  EXPECT_EQ(copy.kept_by_gelu(), kY);
  // Every overload that changes the type: forward and backward read one and write the other, and nothing is kept.
  for (const OneOperator& one : {OneOperator("aten::to.dtype", {DType::BFloat16}, dtype, DType::Float32, DType::BFloat16),
                                 OneOperator("aten::to.dtype_layout", {DType::BFloat16}, dtype, DType::Float32, DType::BFloat16),
                                 OneOperator("aten::type_as", {TensorRef{0}}, {"other"}, DType::Float32, DType::BFloat16)}) {
    EXPECT_EQ(one.moved(), Bytes(2 * (4 + 2) * kElements)) << one.graph.operators[1].target;
    EXPECT_TRUE(one.work().saved.empty()) << one.graph.operators[1].target;
    EXPECT_EQ(one.kept_by_gelu(), kY) << one.graph.operators[1].target;
  }
}

// The gradient of x times a number, or over it, is the result's, times or over that number; of x times x it needs x.
TEST(OperatorCost, AProductWithANumberKeepsNothing) {
  for (const char* target : {"aten::mul.Scalar", "aten::mul.Tensor", "aten::div.Scalar", "aten::div.Tensor"}) {
    const OneOperator by_number(target, {2.0});
    EXPECT_TRUE(by_number.work().saved.empty()) << target;
    EXPECT_EQ(by_number.moved(), Bytes(4 * 4 * kElements)) << target;  // x and y, and their gradients
    EXPECT_EQ(OneOperator(target, {TensorRef{kX}}).work().saved, std::vector<int>{kX}) << target;
  }
}

TEST(OperatorCost, DropoutThatDropsNothingIsAView) {
  for (const OneOperator& one : {OneOperator("aten::dropout", {0.0, true}), OneOperator("aten::dropout", {0.5, false}),
                                 OneOperator("aten::dropout", {std::int64_t{0}, true}, {"p", "train"})}) {
    EXPECT_EQ(one.moved(), Bytes(0));
    EXPECT_EQ(one.work().saved_extra, Bytes(0));
  }
  EXPECT_EQ(OneOperator("aten::dropout", {0.5, true}).work().saved_extra, Bytes(kElements));
}

// logits.float(), then views, then the loss: the cast's traffic is the loss's, once.
TEST(OperatorCost, TheCastOfALossIsCountedOnce) {
  OneOperator one("aten::to.dtype", {DType::Float32}, {"dtype"}, DType::BFloat16, DType::Float32);
  one.graph.tensors.push_back({.name = "labels", .role = TensorRole::Input, .dtype = DType::Int64, .shape = {4}});
  one.graph.operators[2] = {
      .target = "aten::view", .arguments = {TensorRef{kY}, std::vector<std::int64_t>{4, 6}}, .outputs = {4}};
  one.graph.tensors.push_back({.name = "loss", .role = TensorRole::Activation, .dtype = DType::Float32, .producer = 3});
  one.graph.operators.push_back(
      {.target = "aten::cross_entropy_loss", .arguments = {TensorRef{4}, TensorRef{5}}, .outputs = {6}});
  EXPECT_EQ(one.moved(), Bytes(0));
  // cast 2 + 4, log-softmax 4 + 4, labels 8 B a row
  const OperatorWork loss = count_work(one.graph)[3];
  EXPECT_EQ(loss.forward.read + loss.forward.written, Bytes((2 + 4 + 4 + 4) * kElements + 8 * 4));
}

TEST(OperatorCost, UnknownOperatorsAreNamed) {
  Workload workload = gpt(1, 96, 6, 64, {});
  workload.graph->operators[3].target = "mine::frobnicate";
  workload.graph->operators[3].module = "somewhere.deep";
  EXPECT_EQ(test::fault_of([&] { count_work(*workload.graph); }),
            "error: the operator 'mine::frobnicate' at 'somewhere.deep' is not known: its work cannot be counted");
}

}  // namespace
}  // namespace panpipe
