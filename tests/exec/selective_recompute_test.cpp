// `recompute: selective`, `{modules: ...}` and `{operators: ...}`: what they name runs again in the backward, with the same
// dropout, and is not kept.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/stage/segmented_stage.hpp"
#include "exec/engine/stage/stage.hpp"
#include "exec/engine/stage/weight_copies.hpp"
#include "exec/engine/transport/transport.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

using Kind = RecomputedKind;
using Module = RecomputedModule;

RecomputeScope modules(std::vector<Module> names) {
  RecomputeScope scope;
  scope.operators.clear();
  scope.modules = std::move(names);
  return scope;
}

RecomputeScope operators(std::vector<Kind> kinds) {
  RecomputeScope scope;
  scope.operators = std::move(kinds);
  return scope;
}

// With dropout the CPU's attention is no fused kernel: it keeps its scores.
Workload with_dropout(const std::string& model, int tensor = 1, bool sequence_parallel = false) {
  WorkloadRequest request = small_request(model);
  request.dropout = 0.1;
  return make_workload(
      request, {.degrees = {.tensor = tensor, .micro = 2, .sequence_parallel = sequence_parallel}, .precision = Precision::Fp32});
}

// Training over two ranks with `scope` recomputed, compared with one rank that keeps everything.
void expect_equal_over(const OperatorGraph& graph, const std::string& family, const Trained& one, const RecomputeScope& scope) {
  SCOPED_TRACE(family + " " + recompute_words(Recompute::Selective, scope));
  const Plan plan = plan_over(graph, make_schedule(family, 2, 4, {}), 1, Recompute::Selective);
  expect_equal(one, train(graph, plan, nullptr, false, scope));
}

TEST(SelectiveRecompute, EqualsWhatKeepsEverything) {
  for (const std::string model : {"gpt", "llama", "bert"}) {
    SCOPED_TRACE(model);
    const Workload workload = with_dropout(model), plain = small_model(model);
    const Trained one = alone(workload, 4);
    EXPECT_NE(one.loss, alone(plain, 4).loss) << "something is dropped";
    for (const std::string family : {"1f1b", "zb-h1", "zb-v"}) expect_equal_over(*workload.graph, family, one, {});
    for (const RecomputeScope& scope :
         {modules({Module::Mlp}), modules({Module::LayerNorm}), modules({Module::CoreAttention, Module::LayerNorm, Module::Mlp}),
          operators({Kind::Norms}), operators({Kind::Elementwise}), operators({Kind::Products}),
          operators({Kind::Norms, Kind::Elementwise, Kind::SecondProducts}),
          operators({Kind::Attention, Kind::Norms, Kind::Elementwise, Kind::Products})})
      for (const std::string family : {"1f1b", "zb-h1"}) expect_equal_over(*workload.graph, family, one, scope);
  }
}

// A dense layer first, then experts with shared ones, latent attention; experts of four products with biases.
TEST(SelectiveRecompute, EqualsOverExpertsAndLatents) {
  for (const auto& [type, scopes] :
       {std::pair{"deepseek_v3", std::vector{modules({Module::Moe}), modules({Module::MoeActivation}),
                                             modules({Module::SharedExperts, Module::MlaUpProjection}),
                                             modules({Module::CoreAttention, Module::LayerNorm, Module::MlaUpProjection,
                                                      Module::Moe, Module::Mlp})}},
        std::pair{"gpt_oss", std::vector{modules({Module::CoreAttention, Module::MoeActivation}),
                                         operators({Kind::Attention, Kind::Norms, Kind::Elementwise, Kind::Products})}},
        std::pair{"gpt_neox", std::vector{modules({Module::Mlp})}}}) {
    SCOPED_TRACE(type);
    const Workload workload = small_config_model(type);
    const Trained one = alone(workload, 4);
    for (const RecomputeScope& scope : scopes)
      for (const std::string family : {"1f1b", "zb-h1"}) expect_equal_over(*workload.graph, family, one, scope);
  }
}

TEST(SelectiveRecompute, EqualsOverTensorParallelRanks) {
  for (const bool sequence : {false, true}) {
    const Workload workload = with_dropout("gpt", 2, sequence);
    const Trained one = train(workload, make_schedule("1f1b", 2, 4, {}));
    for (const RecomputeScope& scope : {RecomputeScope(), modules({Module::LayerNorm, Module::Mlp}),
                                        operators({Kind::Norms, Kind::Elementwise, Kind::Products})})
      for (const std::string family : {"1f1b", "zb-h1"}) expect_equal_over(*workload.graph, family, one, scope);
  }
}

TEST(SelectiveRecompute, EqualsOverSlicesOfTheSequence) {
  const Workload whole = small_model("llama");
  const SliceGraph slices = small_slices("llama", 2);
  const Schedule schedule = make_schedule("seq-1f1b", 2, 4, {{"sequence_splits", "2"}});
  const Trained one = alone(whole, 4);
  for (const RecomputeScope& scope : {RecomputeScope(), modules({Module::CoreAttention, Module::LayerNorm, Module::Mlp}),
                                      operators({Kind::Elementwise, Kind::Products})})
    expect_equal(one, train(*whole.graph, plan_over(*whole.graph, schedule, 1, Recompute::Selective), &slices, false, scope));
}

// Parts of blocks: `every` and `first` leave others as they are.
TEST(SelectiveRecompute, EqualsWhereSomeBlocksKeepEverything) {
  const Workload workload = with_dropout("gpt");
  const Trained one = alone(workload, 4);
  RecomputeScope scope = modules({Module::Mlp});
  scope.every = 2;
  expect_equal_over(*workload.graph, "1f1b", one, scope);
  scope.first = 1;
  expect_equal_over(*workload.graph, "zb-h1", one, scope);
}

// One forward and backward of the whole model as a stage.
struct OnePass {
  std::int64_t kept = 0;  // bytes alive between the two
  std::map<int, at::Tensor> gradients;
};

OnePass one_pass(const OperatorGraph& graph, const RecomputeScope* scope, std::optional<at::ScalarType> autocast = {}) {
  Plan plan = plan_over(graph, make_schedule("gpipe", 1, 1, {}), 1, scope ? Recompute::Selective : Recompute::None);
  StageLayout layout = make_stage_layout(graph, plan);
  if (scope) choose_recomputed(graph, plan, *scope, layout);
  const SeededParameters parameters(graph, layout, {0}, 1);
  std::optional<WeightCopies> copies;
  if (autocast) copies.emplace(*autocast);
  Stage stage(graph, 0, static_cast<int>(graph.operators.size()), {graph.loss}, parameters, layout.needs_gradient, at::kCPU,
              copies ? &*copies : nullptr);
  stage.set_recomputed(layout.stages[0].listed);
  std::vector<at::Tensor> inputs;
  for (const int input : stage.inputs())
    inputs.push_back(at::arange(graph.tensors[input].elements(), at::kLong).remainder(90).reshape(graph.tensors[input].shape));
  OnePass pass;
  {
    MemoryAccount account;
    stage.forward(0, inputs, {.seed = 1, .autocast = autocast});
    pass.kept = account.live();
    stage.backward(0, {at::ones({})});
  }
  for (const auto& [root, parameter] : parameters.trained()) pass.gradients[root] = parameter.grad();
  return pass;
}

std::int64_t no_longer_kept(const OperatorGraph& graph, const RecomputeScope& scope,
                            std::optional<at::ScalarType> autocast = {}) {
  return one_pass(graph, nullptr, autocast).kept - one_pass(graph, &scope, autocast).kept;
}

TEST(SelectiveRecompute, KeepsNoScores) {
  const Workload workload = with_dropout("gpt");
  // Four layers, two samples, four heads, 16 x 16 scores of four bytes: softmax's result and what dropout made of it, at least.
  const std::int64_t scores = 4 * 2 * 4 * 16 * 16 * 4;
  EXPECT_GE(no_longer_kept(*workload.graph, {}), 2 * scores);
}

// Four layers of hidden 32 over 32 tokens, four bytes a number. GPT's MLP is 128 wide: the inputs of GELU and of the second
// product. Llama's is 64 wide: what SiLU reads and makes, the other half, their product. Both normalizations: their results,
// which products read, and two statistics a token.
TEST(SelectiveRecompute, KeepsNeitherModulesNorNormalizations) {
  const std::int64_t token_layers = 4 * 32 * std::int64_t{4};
  const Workload gpt = small_model("gpt"), llama = small_model("llama");
  EXPECT_EQ(no_longer_kept(*gpt.graph, modules({Module::Mlp})), token_layers * 2 * 128);
  EXPECT_EQ(no_longer_kept(*llama.graph, modules({Module::Mlp})), token_layers * 4 * 64);
  EXPECT_EQ(no_longer_kept(*gpt.graph, modules({Module::LayerNorm})), token_layers * 2 * (32 + 2));
}

// Under autocast the products keep casts of what normalizations made, 2 bytes a number: they go with it.
TEST(SelectiveRecompute, LetsCastsGoToo) {
  const Workload gpt = small_model("gpt");
  const RecomputeScope scope = modules({Module::LayerNorm});
  const std::int64_t casts = 4 * 32 * std::int64_t{2} * 2 * 32;
  EXPECT_GE(no_longer_kept(*gpt.graph, scope, at::kBFloat16), casts);
  const OnePass kept = one_pass(*gpt.graph, nullptr, at::kBFloat16), again = one_pass(*gpt.graph, &scope, at::kBFloat16);
  for (const auto& [root, gradient] : kept.gradients) EXPECT_TRUE(at::equal(gradient, again.gradients.at(root))) << root;
}

// What a dropped pass makes again in an R of its own is there for its backward, which makes nothing a third time. So R keeps what
// a forward without recompute keeps, and not the forward's own, which leaves the scores out.
TEST(SelectiveRecompute, AWholePassRunAgainKeepsAll) {
  const Workload workload = with_dropout("gpt");
  const OperatorGraph& graph = *workload.graph;
  const Plan plan = plan_over(graph, make_schedule("gpipe", 1, 1, {}), 1, Recompute::Selective);
  StageLayout layout = make_stage_layout(graph, plan);
  choose_recomputed(graph, plan, {}, layout);
  ASSERT_FALSE(layout.stages[0].listed.empty());
  const SeededParameters parameters(graph, layout, {0}, 1);
  const auto transports = make_local_transports(1);
  RankSite site{graph, plan, layout, *transports[0]};
  const PassGroups groups(site);
  SegmentedStage stage(graph, layout.stages[0], parameters, layout.needs_gradient, at::kCPU, groups);
  std::vector<at::Tensor> inputs;
  for (const int input : stage.inputs())
    inputs.push_back(at::arange(graph.tensors[input].elements(), at::kLong).remainder(90).reshape(graph.tensors[input].shape));
  const auto run = [](const Steps& steps, Values values) {
    for (const PassStep& step : steps) step(values);
  };
  const auto kept = [&](bool again) {
    const MemoryAccount account;
    run(stage.forward({0, {.seed = 1}, !again}), inputs);
    if (again) run(stage.recompute(0), {});
    const std::int64_t live = account.live();
    run(stage.backward(ActionKind::B, 0), {at::ones({})});
    return live;
  };
  kept(true);  // makes the gradients of the parameters
  EXPECT_EQ(kept(true), one_pass(graph, nullptr).kept);
  EXPECT_LT(kept(false), kept(true));
}

// The prediction of `memory`: kept bytes fall alike.
TEST(SelectiveRecompute, KeepsAsMuchLessAsPredicted) {
  const auto predicted = [](const std::string& lines) {
    const Scenario scenario = parse_scenario(
        "panpipe: 1\ncluster: clusters/h100x8.yaml\nprecision: fp32\nframework: eager-sdpa\nparallel: {pipeline: 1}\n"
        "workload: {model: gpt, layers: 4, hidden: 32, heads: 4, sequence: 16, vocabulary: 96}\n"
        "batch: {micro: 2, microbatches: 1}\n" +
            lines,
        "test", ".");
    const Workload workload = make_workload(scenario);
    const CostModel model(scenario, workload);
    std::int64_t bytes = 0;
    for (const UnitCost& unit : model.workload(0).units) bytes += (lines.empty() ? unit.saved : unit.saved_selective).base();
    return bytes;
  };
  const Workload gpt = small_model("gpt");
  for (const auto& [lines, scope] :
       {std::pair{"recompute: {modules: [mlp]}\n", modules({Module::Mlp})},
        std::pair{"recompute: {modules: [layernorm]}\n", modules({Module::LayerNorm})},
        std::pair{"recompute: {operators: [norms, elementwise]}\n", operators({Kind::Norms, Kind::Elementwise})},
        std::pair{"recompute: {operators: [norms, elementwise, products]}\n",
                  operators({Kind::Norms, Kind::Elementwise, Kind::Products})}}) {
    SCOPED_TRACE(lines);
    const auto expected = static_cast<double>(predicted("") - predicted(lines));
    EXPECT_NEAR(static_cast<double>(no_longer_kept(*gpt.graph, scope)), expected, 0.02 * expected);
  }
}

}  // namespace
}  // namespace panpipe::exec
