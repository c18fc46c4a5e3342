// Recompute of some blocks, stage by stage, as a choice of the search.
#include "planner/auto/stage_recompute.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "planner/candidate.hpp"
#include "tests/planner/auto/scenarios.hpp"

namespace panpipe::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Answer answer_of(const Scenario& scenario, int threads = 1) {
  SearchOptions options;
  options.threads = threads;
  return search(Experiment(scenario), options);
}

double step_of(const Answer& answer) {
  return answer.candidates.empty() ? std::numeric_limits<double>::infinity()
                                   : *figure_named(answer.candidates.front().metrics, "step_time_s");
}

// Four ranks of 1f1b: the first holds four microbatches, the last one. Without recompute a device needs 22.9 GiB,
// with that of attention 9.0 GiB, of all 5.2 GiB.
Scenario four_ranks(const std::string& more, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = {"workload.layers=32", "workload.vocabulary=4096", "batch.micro=4", "schedule=1f1b",
                                  "parallel={pipeline: 4, tensor: 1, data: 1, zero: 0}"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return testing::eight_cards(more, all);
}

// 10 bytes without recompute, 4 with it, so that a limit of 7 takes half of the blocks: 100 + (130 - 100) / 2 seconds.
TEST(RecomputeShare, IsWhatTheLimitAsksFor) {
  const RecomputeShare share{10, 4, 100, 130};
  EXPECT_DOUBLE_EQ(share.step_within(7), 115);
  EXPECT_DOUBLE_EQ(share.step_within(12), 100);
  EXPECT_DOUBLE_EQ(share.step_within(4), 130);
  EXPECT_EQ(share.step_within(3.9), std::numeric_limits<double>::infinity());
}

// At each limit of memory: the open search is never slower than the best of the modes for all blocks, and faster somewhere.
TEST(StageRecompute, IsNeverSlowerThanOneModeForAll) {
  bool faster = false, by_stage = false;
  for (const char* usable : {"25 %", "35 %", "50 %", "65 %", "80 %"}) {
    const std::string limit = std::string("usable=") + usable;
    const Answer open = answer_of(four_ranks("", {"recompute=auto", limit}));
    double best = std::numeric_limits<double>::infinity();
    for (const char* mode : {"none", "selective", "full"}) {
      const Answer stated = answer_of(four_ranks("", {std::string("recompute=") + mode, limit}));
      if (!stated.candidates.empty() && room_of(stated.candidates.front()) == Room::Enough)
        best = std::min(best, step_of(stated));
    }
    if (best == std::numeric_limits<double>::infinity()) continue;
    ASSERT_FALSE(open.candidates.empty()) << limit << ": " << open.reason;
    EXPECT_LE(step_of(open), best * (1 + 1e-9)) << limit;
    faster |= step_of(open) < 0.99 * best;
    by_stage |= !first_blocks(*open.candidates.front().plan).empty();
  }
  EXPECT_TRUE(faster);
  EXPECT_TRUE(by_stage);
}

// The first rank holds most microbatches. Settings, summary and plan state the same numbers, and the step is the plan's.
TEST(StageRecompute, EarlierStagesRecomputeMore) {
  const std::vector<std::string> limit = {"recompute=auto", "usable=50 %"};
  const Answer answer = answer_of(four_ranks("", limit));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  const Candidate& best = answer.candidates.front();
  const std::vector<int> blocks = first_blocks(*best.plan);
  ASSERT_EQ(blocks.size(), 4U) << best.summary;
  EXPECT_GT(blocks[0], blocks[2]);
  EXPECT_THAT(best.summary, HasSubstr(" blocks of the stages"));
  const auto again = [&](const std::vector<std::string>& overrides) {
    const Scenario scenario = four_ranks("", overrides);
    EXPECT_EQ(first_blocks(Experiment(scenario).plan("")), blocks);
    return scenario;
  };
  testing::expect_again(best, again, limit);
}

TEST(StageRecompute, TheThreadsDoNotChangeTheAnswer) {
  const std::vector<std::string> open = {"recompute=auto", "usable=50 %", "schedule=auto", "parallel.pipeline=auto"};
  EXPECT_EQ(to_json(answer_of(four_ranks("", open))), to_json(answer_of(four_ranks("", open), 3)));
}

// One stage on one device: some of its blocks, and faster than all of them.
TEST(StageRecompute, OfOneStage) {
  const std::vector<std::string> one = {"parallel={pipeline: 1, tensor: 1, data: 1, zero: 0}", "schedule=auto", "usable=50 %"};
  const auto with = [&](const char* recompute) {
    std::vector<std::string> all = one;
    all.emplace_back(recompute);
    return answer_of(four_ranks("", all));
  };
  const Answer open = with("recompute=auto"), full = with("recompute=full");
  ASSERT_FALSE(open.candidates.empty()) << open.reason;
  EXPECT_EQ(first_blocks(*open.candidates.front().plan).size(), 1U) << open.candidates.front().summary;
  EXPECT_LT(step_of(open), step_of(full));
}

// Its stages cannot differ there.
TEST(StageRecompute, NotForATrainerWithoutIt) {
  const Answer answer = answer_of(four_ranks("trainer: torchtitan\n", {"recompute=auto", "usable=50 %"}));
  for (const Candidate& candidate : answer.candidates) {
    ASSERT_TRUE(candidate.plan);
    EXPECT_THAT(first_blocks(*candidate.plan), IsEmpty()) << candidate.summary;
  }
}

// With several stages a rank, tensor ranks and ZeRO.
TEST(StageRecompute, GoesWithTheOtherChoices) {
  for (const std::vector<std::string>& choice :
       {std::vector<std::string>{"schedule=interleaved-1f1b", "parallel={pipeline: 2, virtual_stages: 2, tensor: 1, data: 1}"},
        std::vector<std::string>{"schedule=1f1b", "parallel={pipeline: 2, tensor: 2, data: 1}"},
        std::vector<std::string>{"schedule=1f1b-v", "parallel={pipeline: 2, tensor: 1, data: 2, zero: 2}"},
        std::vector<std::string>{"schedule=1f1b", "parallel={pipeline: 2, tensor: 1, data: 2, zero: 3}"}}) {
    std::vector<std::string> all = choice;
    all.insert(all.end(), {"workload.layers=32", "workload.vocabulary=4096", "batch.micro=4", "recompute=auto", "usable=50 %"});
    const Answer answer = answer_of(testing::eight_cards("", all));
    ASSERT_FALSE(answer.candidates.empty()) << choice.front() << ": " << answer.reason;
    testing::expect_again(
        answer.candidates.front(), [](const auto& set) { return testing::eight_cards("", set); }, all);
  }
}

// With the schedule open, an order that recomputes single microbatches takes the place of whole blocks' recompute where memory is
// short: not where it is not, where recompute is stated, nor for a trainer that runs no such order.
TEST(StageRecompute, AnOrderThatPlacesItComesLast) {
  const auto first_of = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"parallel={pipeline: 8, tensor: 1, data: 1, zero: 0}", "batch.microbatches=8"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const Answer answer = answer_of(four_ranks("", all));
    EXPECT_FALSE(answer.candidates.empty()) << answer.reason;
    return answer.candidates.empty() ? std::string() : answer.candidates.front().summary;
  };
  const std::string open = "schedule=auto", tight = "usable=25 %";
  EXPECT_THAT(first_of({open, "recompute=auto", tight}), HasSubstr("auto-memory with 2 stages a rank"));
  EXPECT_THAT(first_of({open, "recompute=auto", tight}), HasSubstr("recompute as the order has it"));
  EXPECT_THAT(first_of({open, "recompute=auto", "usable=100 %"}), Not(HasSubstr("auto-memory")));
  EXPECT_THAT(first_of({open, "recompute=selective", tight}), Not(HasSubstr("auto-memory")));
  EXPECT_THAT(first_of({open, "recompute=auto", tight, "trainer=torch"}), Not(HasSubstr("auto-memory")));
}

}  // namespace
}  // namespace panpipe::planner
