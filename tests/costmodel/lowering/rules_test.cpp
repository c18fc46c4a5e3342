// Rules that the lowering, the planners and the executor share, each by itself.
#include <gtest/gtest.h>

#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/plan/pass_rules.hpp"
#include "costmodel/plan/stage_links.hpp"
#include "costmodel/plan/transfer_semantics.hpp"

namespace panpipe {
namespace {

// Tensor 7 of unit 0 is read by units 1, 2 and 3; a mask (8) carries no gradient; two edges of units 1 to 3 name no tensor.
std::vector<UnitEdge> some_edges() {
  return {{0, 1, 7, Bytes(10), true}, {0, 2, 7, Bytes(10), false}, {0, 3, 7, Bytes(10), false}, {0, 3, 8, Bytes(4), false},
          {1, 3, -1, Bytes(1), true}, {1, 3, -1, Bytes(2), true},  {2, 3, 9, Bytes(5), true}};
}

TEST(StageLinks, ATensorGoesOnceToEachStageThatReadsIt) {
  // Stages 0: unit 0, 1: units 1 and 2, 2: unit 3.
  const std::vector<StageLink> links = stage_links(some_edges(), {0, 1, 1, 2});
  ASSERT_EQ(links.size(), 3U);
  EXPECT_EQ(std::pair(links[0].from, links[0].to), std::pair(0, 1));
  EXPECT_EQ(links[0].bytes, 10);
  EXPECT_EQ(links[0].gradient_bytes, 10);  // unit 1 gives one back, whatever unit 2 does
  EXPECT_EQ(std::pair(links[1].from, links[1].to), std::pair(0, 2));
  EXPECT_EQ(links[1].bytes, 14);
  EXPECT_FALSE(links[1].gradient);
  EXPECT_EQ(std::pair(links[2].from, links[2].to), std::pair(1, 2));
  EXPECT_EQ(links[2].bytes, 8);  // 1 + 2 of tensors without name, 5
  EXPECT_EQ(links[2].gradient_bytes, 8);
}

TEST(StageLinks, UnitsOfNoStageHandNothingOver) {
  EXPECT_TRUE(stage_links(some_edges(), {-1, 0, 0, -1}).empty());
  EXPECT_TRUE(stage_links(some_edges(), {0, 0, 0, 0}).empty());
  EXPECT_EQ(crossings(some_edges(), {1, 0, 0, 0}).size(), 2U);  // a stage may come back to an earlier number
}

TEST(PassRules, AProfiledFirstStageDoesItsWholeBackwardAsWeightGradients) {
  Scenario scenario;
  EXPECT_FALSE(backward_all_in_weight(scenario.framework, false));
  use_profile(scenario, std::make_shared<Profile>());
  EXPECT_TRUE(backward_all_in_weight(scenario.framework, false));
  EXPECT_FALSE(backward_all_in_weight(scenario.framework, true));
  EXPECT_EQ(work_of_pass(ActionKind::I, true), std::nullopt);
  EXPECT_EQ(work_of_pass(ActionKind::W, true), ActionKind::B);
  for (const ActionKind kind : {ActionKind::F, ActionKind::B, ActionKind::R}) EXPECT_EQ(work_of_pass(kind, true), kind);
  for (const ActionKind kind : {ActionKind::F, ActionKind::I, ActionKind::W}) EXPECT_EQ(work_of_pass(kind, false), kind);
}

TEST(PassRules, MessagesBelongToForwardsAndToWhatMakesGradients) {
  for (const auto& [kind, forward, back] : {std::tuple(ActionKind::F, true, false),
                                            {ActionKind::B, false, true},
                                            {ActionKind::I, false, true},
                                            {ActionKind::W, false, false},
                                            {ActionKind::R, false, false}}) {
    EXPECT_EQ(has_messages(kind, false), forward);
    EXPECT_EQ(has_messages(kind, true), back);
  }
}

TEST(PassRules, SendersWaitAsStatedElseAsTheFrameworkDoes) {
  Scenario scenario;
  scenario.framework.blocking_transfers = false;
  EXPECT_EQ(transfer_semantics(scenario, false), TransferSemantics::Asynchronous);
  scenario.framework.blocking_transfers = true;
  EXPECT_EQ(transfer_semantics(scenario, false), TransferSemantics::Blocking);
  EXPECT_EQ(transfer_semantics(scenario, true), TransferSemantics::Asynchronous);
  scenario.transfers.semantics = TransferSemantics::Batched;
  EXPECT_EQ(transfer_semantics(scenario, true), TransferSemantics::Batched);
}

TEST(OptimizerState, MomentsAndTheZeroStageInEffect) {
  EXPECT_EQ(moments("adam"), 2);
  EXPECT_EQ(moments("adamw"), 2);
  EXPECT_EQ(moments("momentum"), 1);
  EXPECT_EQ(moments("sgd"), 0);
  Framework framework;
  EXPECT_EQ(zero_in_effect(framework, {.data = 2, .zero = 0}), 0);
  EXPECT_EQ(zero_in_effect(framework, {.data = 2, .zero = 3}), 3);
  EXPECT_EQ(zero_in_effect(framework, {.zero = 3, .context = 2}), 3);
  EXPECT_EQ(zero_in_effect(framework, {.tensor = 4, .zero = 3}), 0);  // nobody to divide over
  // Of four ranks with two experts' halves each, two hold the same experts.
  EXPECT_EQ(zero_in_effect(framework, {.tensor = 4, .zero = 3, .expert = 2, .expert_tensor = 1}), 3);
  framework.distributed_optimizer = true;
  EXPECT_EQ(zero_in_effect(framework, {.data = 2, .zero = 0}), 1);
  EXPECT_EQ(zero_in_effect(framework, {.data = 2, .zero = 2}), 2);
  EXPECT_EQ(zero_in_effect(framework, {}), 0);
}

}  // namespace
}  // namespace panpipe
