// Recompute of sets of operators as a choice of the search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "planner/candidate.hpp"
#include "planner/planner.hpp"
#include "tests/planner/auto/scenarios.hpp"

namespace panpipe::planner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One microbatch on each of eight cards, whose attention keeps no scores: `selective` makes no room.
Scenario flash(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = {"framework=eager-sdpa", "workload.layers=24", "batch={micro: 8, microbatches: 8}",
                                  "schedule=1f1b", "parallel={pipeline: 1, tensor: 1, data: 8, zero: 1, virtual_stages: 1}"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return testing::eight_cards("", all);
}

Answer answer_of(const std::vector<std::string>& overrides) { return search(Experiment(flash(overrides)), SearchOptions{}); }

double step_of(const std::vector<std::string>& overrides) {
  const Answer answer = answer_of(overrides);
  return answer.candidates.empty() || room_of(answer.candidates.front()) != Room::Enough
             ? std::numeric_limits<double>::infinity()
             : *figure_named(answer.candidates.front().metrics, "step_time_s");
}

// At each limit no mode and no set, in all blocks, is faster than the open search, and at some it is faster than every mode.
TEST(RecomputeSets, NoStatedRecomputeIsFaster) {
  bool of_sets = false;
  for (const std::string usable : {"usable=55 %", "usable=65 %", "usable=70 %", "usable=100 %"}) {
    const double open = step_of({"recompute=auto", usable});
    double modes = std::numeric_limits<double>::infinity();
    for (const char* mode : {"none", "selective", "full"})
      modes = std::min(modes, step_of({std::string("recompute=") + mode, usable}));
    EXPECT_LE(open, modes * (1 + 1e-9)) << usable;
    for (const char* set : {"norms, elementwise", "norms, elementwise, second-products"})
      EXPECT_LE(open, step_of({"recompute={operators: [" + std::string(set) + "]}", usable}) * (1 + 1e-9)) << usable << set;
    of_sets |= open < 0.99 * modes && !answer_of({"recompute=auto", usable}).candidates.front().recomputed.empty();
  }
  EXPECT_TRUE(of_sets);
}

// Summary and settings name the operators, and an estimate of the settings is the plan's.
TEST(RecomputeSets, FiguresAreThoseOfTheSettings) {
  const std::vector<std::string> limit = {"recompute=auto", "usable=70 %"};
  const Answer answer = answer_of(limit);
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  const Candidate& best = answer.candidates.front();
  ASSERT_FALSE(best.recomputed.empty()) << best.summary;
  EXPECT_THAT(best.summary, HasSubstr("recompute selective (norms, elementwise"));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("recompute of these operators was searched too: norms, elementwise; ")));
  const auto again = [&](const std::vector<std::string>& overrides) {
    const Scenario scenario = flash(overrides);
    EXPECT_EQ(scenario.recompute_scope.operators, best.recomputed);
    return scenario;
  };
  testing::expect_again(best, again, limit);
}

TEST(RecomputeSets, AreThoseOfTheTrainer) {
  for (const std::string trainer : {"torchtitan", "huggingface", "panpipe"}) {
    const Answer answer = answer_of({"recompute=auto", "usable=70 %", "parallel.zero=auto", "trainer=" + trainer});
    ASSERT_FALSE(answer.candidates.empty()) << trainer << answer.reason;
    for (const Candidate& candidate : answer.candidates) {
      if (candidate.recomputed.empty()) continue;
      EXPECT_THAT(load_trainer(trainer).recompute_sets, Contains(candidate.recomputed)) << trainer;
      EXPECT_THAT(candidate.cautions, Not(Contains(HasSubstr("does not have")))) << trainer;
    }
  }
  EXPECT_THAT(load_trainer("huggingface").recompute_sets, IsEmpty());
}

// Where the best plan keeps everything, nothing of this is searched.
TEST(RecomputeSets, AreNotSearchedWhereMemorySuffices) {
  EXPECT_THAT(answer_of({"recompute=auto", "batch.micro=1"}).notes, Not(Contains(HasSubstr("recompute of these operators"))));
}

}  // namespace
}  // namespace panpipe::planner
