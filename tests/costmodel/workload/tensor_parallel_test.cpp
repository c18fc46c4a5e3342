// Do the shards of the ranks make up the whole model, and do the graphs communicate where Megatron's do?
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

Workload make(const std::string& model, int degree, bool sequence = false, double dropout = 0) {
  WorkloadRequest request;
  request.model = model;
  request.dropout = dropout;
  return make_workload(request,
                       {.degrees = {.tensor = degree, .micro = 2, .sequence_parallel = sequence}, .precision = Precision::Bf16});
}

struct Case {
  const char* model;
  std::int64_t vocabulary;        // 0: none
  std::int64_t vocabulary_width;  // elements per vocabulary row over all vocabulary parameters
};

// Over the ranks: shards add up (each held by `shard_replicas`), unsharded parameters repeat. Only padding rows are new.
TEST(TensorParallel, ShardsMakeUpTheModel) {
  for (const Case& c : {Case{"gpt3-1.3b", 51200, 2048}, Case{"gpt2-medium", 50257, 1024}, Case{"llama2-7b", 32000, 2 * 4096},
                        Case{"llama2-70b", 32000, 2 * 8192}, Case{"bert-large", 30522, 1025}, Case{"vit-h-14", 0, 0},
                        Case{"mllm-28.8b", 152064, 2 * 7168}})
    for (int degree : {1, 2, 4, 8, 16}) {
      if (degree == 16 && std::string(c.model) == "mllm-28.8b") continue;  // 56 heads
      const Workload workload = make(c.model, degree);
      std::int64_t sum = 0;
      for (const Tensor& tensor : workload.graph->tensors) {
        if (tensor.role != TensorRole::Parameter || tensor.tied_to >= 0) continue;
        sum += tensor.shard_dimension < 0 ? tensor.elements() : tensor.elements() * degree / tensor.shard_replicas;
      }
      // 50257 is odd and pads to a multiple of 128 x degree: 50432 (2), 50688 (4), 51200 (8); 30522 = 2 x 15261 pads from 4 on.
      std::int64_t padding = 0;
      if (c.vocabulary % degree != 0)
        padding = (c.vocabulary + 128 * degree - 1) / (128 * degree) * (128 * degree) - c.vocabulary;
      EXPECT_EQ(sum, workload.parameters + padding * c.vocabulary_width) << c.model << " over " << degree;
      EXPECT_EQ(workload.parameters, make(c.model, 1).parameters) << c.model << " over " << degree;
      EXPECT_DOUBLE_EQ(workload.model_flops.base(), make(c.model, 1).model_flops.base()) << c.model << " over " << degree;
    }
}

TEST(TensorParallel, GraphsKeepTheInvariants) {
  for (const char* model : {"gpt2-medium", "gpt3-175b", "llama2-70b", "bert-base", "vit-h-14", "mllm-14.9b"})
    for (int degree : {1, 2, 4})
      for (bool sequence : {false, true}) {
        if (sequence && degree > 1 && std::string(model) == "vit-h-14") continue;  // 257 tokens
        const Workload workload = make(model, degree, sequence, 0.1);
        EXPECT_NO_THROW(workload.graph->check()) << model << degree << sequence;
        EXPECT_EQ(count_work(*workload.graph).size(), workload.graph->operators.size());
      }
}

struct Count {
  int all_reduce = 0, all_gather = 0, reduce_scatter = 0;
  void add(CollectiveKind kind) {
    all_reduce += kind == CollectiveKind::AllReduce;
    all_gather += kind == CollectiveKind::AllGather;
    reduce_scatter += kind == CollectiveKind::ReduceScatter;
  }
};

// Shoeybi et al.: two all-reduces forward and two backward per layer; Korthikanti et al.: with sequence parallelism each becomes
// an all-gather and a reduce-scatter. Each moves the whole s b h tensor.
TEST(TensorParallel, EveryLayerCommunicatesTwiceEachWay) {
  for (const char* model : {"gpt2-medium", "llama2-70b", "bert-base"})
    for (bool sequence : {false, true}) {
      const Workload workload = make(model, 4, sequence);
      const OperatorGraph& graph = *workload.graph;
      const auto works = count_work(graph);
      Count forward, backward;
      for (std::size_t i = 0; i < graph.operators.size(); ++i) {
        const Operator& op = graph.operators[i];
        if (graph.units[op.unit].layer != 1) continue;
        forward.add(op.forward_collective);
        backward.add(op.backward_collective);
        if (works[i].kind != OperatorClass::Collective) continue;
        const Tensor& in = graph.tensors[std::get<TensorRef>(op.arguments[0]).tensor];
        const Tensor& out = graph.tensors[op.outputs[0]];
        EXPECT_EQ(works[i].collective_bytes, std::max(in.bytes(), out.bytes()));
      }
      EXPECT_EQ(forward.all_reduce, sequence ? 0 : 2) << model;
      EXPECT_EQ(backward.all_reduce, sequence ? 0 : 2) << model;
      EXPECT_EQ(forward.all_gather, sequence ? 2 : 0) << model;
      EXPECT_EQ(forward.reduce_scatter, sequence ? 2 : 0) << model;
      EXPECT_EQ(backward.all_gather, sequence ? 2 : 0) << model;
      EXPECT_EQ(backward.reduce_scatter, sequence ? 2 : 0) << model;
    }
}

TEST(TensorParallel, CollectivesMoveTheWholeTensor) {
  // gpt3-175b, 2 samples of 2048 tokens, hidden 12288, 2 bytes: 2 x 2048 x 12288 x 2 B = 100,663,296 B
  for (bool sequence : {false, true}) {
    const Workload workload = make("gpt3-175b", 8, sequence);
    const auto works = count_work(*workload.graph);
    for (std::size_t i = 0; i < works.size(); ++i)
      if (works[i].kind == OperatorClass::Collective) {
        EXPECT_EQ(works[i].collective_bytes, Bytes(100'663'296)) << workload.graph->operators[i].target;
      }
  }
}

// 8 key-value heads over 16 ranks: a pair of ranks holds one head.
TEST(TensorParallel, FewKeyValueHeadsAreReplicated) {
  const Workload workload = make("llama2-70b", 16);
  for (const Tensor& tensor : workload.graph->tensors)
    if (tensor.name == "model.layers.0.self_attn.k_proj.weight") {
      EXPECT_EQ(tensor.shape, (Shape{128, 8192}));
      EXPECT_EQ(tensor.full_shape, (Shape{1024, 8192}));
      EXPECT_EQ(tensor.shard_replicas, 2);
      return;
    }
  FAIL() << "no key matrix";
}

// Parameters that a rank applies to its part of the sequence have a gradient of that part only: norms and the biases behind a
// reduce-scatter, nothing else.
TEST(TensorParallel, SequencePartsHavePartialGradients) {
  const Workload workload = make("gpt2-medium", 4, true);
  for (const Tensor& tensor : workload.graph->tensors) {
    if (tensor.role != TensorRole::Parameter) continue;
    const bool norm = tensor.name.find(".ln_") != std::string::npos;
    const bool row_bias = tensor.name.ends_with("c_proj.bias");
    EXPECT_EQ(tensor.gradient_partial, norm || row_bias) << tensor.name;
  }
  const Workload whole = make("gpt2-medium", 4);
  for (const Tensor& tensor : whole.graph->tensors) EXPECT_FALSE(tensor.gradient_partial) << tensor.name;
}

std::string refusal(const std::string& model, int degree, bool sequence = false) {
  return test::fault_of([&] { make(model, degree, sequence); });
}

TEST(TensorParallel, DegreesThatDoNotFitAreRefusedInWords) {
  EXPECT_EQ(refusal("gpt2-medium", 3), "error: tensor parallelism of 3 does not divide the 16 heads of gpt2-medium");
  EXPECT_EQ(refusal("gpt2-xl", 2), "error: tensor parallelism of 2 does not divide the 25 heads of gpt2-xl");
  EXPECT_EQ(refusal("vit-l-16", 4, true),
            "error: tensor parallelism of 4 does not divide the 197 tokens of a sequence (sequence parallelism) of vit-l-16");
  EXPECT_EQ(refusal("sdxl-unet", 2),
            "error: sdxl-unet has no tensor parallelism: convolutions are not cut; use parallel.tensor 1");
}

}  // namespace
}  // namespace panpipe
