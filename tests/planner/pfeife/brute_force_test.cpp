// Against trying everything: all cuts of all members, lowered and estimated one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "planner/pfeife/search_space.hpp"
#include "planner/pfeife/tried_schedules.hpp"
#include "tests/planner/pfeife/layer_chains.hpp"

namespace panpipe::test {
namespace {

// Calls visit(cuts) for every way to cut `units` into `stages`.
template <class Visit>
void every_cut(int units, int stages, Visit visit) {
  Cuts cuts;
  const auto descend = [&](auto self, int from) -> void {
    if (static_cast<int>(cuts.size()) == stages - 1) return visit(cuts);
    for (int c = from; c < units; ++c) {
      cuts.push_back(c);
      self(self, c + 1);
      cuts.pop_back();
    }
  };
  descend(descend, 1);
}

// Calls visit(modes) for every way in which so many stages recompute.
template <class Visit>
void every_recompute(const std::vector<Recompute>& choices, int stages, Visit visit) {
  planner::Modes modes(static_cast<std::size_t>(stages), choices.front());
  const auto descend = [&](auto self, std::size_t k) -> void {
    if (k == modes.size()) return visit(modes);
    for (const Recompute mode : choices) {
      modes[k] = mode;
      self(self, k + 1);
    }
  };
  descend(descend, 0);
}

// The shortest step of all that fit, over members with 1 to `most` stages a rank and these ways to recompute; 0 = none fits.
double shortest(const Experiment& experiment, int most, bool splits, const std::vector<Recompute>& choices) {
  const planner::SearchSpace space(experiment);
  double best = 0;
  for (int stages = 1; stages <= most; ++stages) {
    for (const planner::TriedSchedule& member : planner::tried_schedules(experiment.scenario, stages, splits).members) {
      if (!check_schedule(member.schedule).empty() || member.schedule.stages > space.units()) continue;
      every_cut(space.units(), member.schedule.stages, [&](const Cuts& cuts) {
        every_recompute(choices, member.schedule.stages, [&](const planner::Modes& modes) {
          const Plan plan = space.plan(member.schedule, cuts, modes);
          const Metrics figures = metrics(estimate(lower(experiment.scenario, plan, experiment.model)));
          if (figures.fits && (best == 0 || figures.step_time_s < best)) best = figures.step_time_s;
        });
      });
    }
  }
  return best;
}

LayersCase random_case(std::mt19937& random, int units, bool skips) {
  LayersCase made;
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int u = 0; u < units; ++u) made.layers.push_back({1.0 + below(40) / 8.0, 100 + below(200), below(150), below(60)});
  for (int u = 0; u + 1 < units; ++u) made.edges.emplace_back(u, u + 1, 1 + below(2000));
  for (int k = 0; skips && k < 3; ++k) {
    const int from = below(units - 2);
    made.edges.emplace_back(from, from + 2 + below(units - from - 2), 1 + below(4000));
  }
  made.devices = 2 + below(2);
  made.microbatches = made.devices + below(3);
  made.link = "{latency: 0.3 ms, bandwidth: 4 MB/s}";
  return made;
}

void compare(const LayersCase& made, int most, const std::string& about,
             const std::vector<Recompute>& choices = {Recompute::None}) {
  SCOPED_TRACE(about);
  const auto experiment = experiment_of(made);
  const planner::Answer answer = plan_pfeife(*experiment);
  const double best = shortest(*experiment, most, made.backward_ratio < 0, choices);
  if (best == 0) {
    EXPECT_TRUE(answer.candidates.empty());
    return;
  }
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  EXPECT_LE(metric(answer.candidates.front(), "step_time_s"), best * (1 + 1e-12));
  // The search may have found more stages on a rank, or prefetch vectors, better still: never below its own bound.
  EXPECT_LE(answer.search.lower_bound, metric(answer.candidates.front(), "step_time_s") * (1 + 1e-12));
  EXPECT_TRUE(answer.search.proved_optimal);
}

TEST(BruteForce, ChainsWithOneStagePerRankAreProvedOptimal) {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    LayersCase made = random_case(random, 9, false);
    made.extra = "schedule: {name: pfeife, stages_per_rank: 1}\n";
    compare(made, 1, "round " + std::to_string(round));
  }
}

TEST(BruteForce, ATensorThatSkipsStagesIsCounted) {
  std::mt19937 random(11);
  for (int round = 0; round < 10; ++round) {
    LayersCase made = random_case(random, 8, true);
    made.extra = "schedule: {name: pfeife, stages_per_rank: 2}\n";
    made.devices = 2;
    made.microbatches = 2 + round % 3;
    const auto experiment = experiment_of(made);
    const planner::Answer answer = plan_pfeife(*experiment);
    ASSERT_FALSE(answer.candidates.empty());
    const planner::SearchSpace space(*experiment);
    double best = 0;
    for (const planner::TriedSchedule& member : planner::tried_schedules(experiment->scenario, 2, false).members) {
      if (!check_schedule(member.schedule).empty()) continue;
      every_cut(space.units(), member.schedule.stages, [&](const Cuts& cuts) {
        const double time =
            metrics(estimate(lower(experiment->scenario, space.plan(member.schedule, cuts), experiment->model))).step_time_s;
        if (best == 0 || time < best) best = time;
      });
    }
    EXPECT_NEAR(metric(answer.candidates.front(), "step_time_s"), best, 1e-12) << round;
    EXPECT_TRUE(answer.search.proved_optimal) << round;
  }
}

TEST(BruteForce, MemoryLimitsAreKeptInBothModels) {
  std::mt19937 random(13);
  int infeasible = 0;
  for (int round = 0; round < 24; ++round) {
    LayersCase made = random_case(random, 8, round % 2 == 0);
    made.memory = round % 3 == 0 ? 2500 + 200 * round : 16000 + 1000 * round;
    made.extra = std::string("memory_model: ") + (round % 4 < 2 ? "pfeife" : "full") +
                 "\noptimizer: adam\nrecompute: none\nschedule: {name: pfeife, stages_per_rank: 1}\n";
    const auto experiment = experiment_of(made);
    infeasible += plan_pfeife(*experiment).candidates.empty() ? 1 : 0;
    compare(made, 1, "round " + std::to_string(round));
  }
  EXPECT_GT(infeasible, 2);  // the limits reach from too little to plenty
  EXPECT_LT(infeasible, 22);
}

// Where the scenario leaves recompute open, each stage may run its forward again (measured layers have no part of it to choose):
// all cuts x all 2^stages ways. Limits from where nothing fits without recompute to where none is needed.
TEST(BruteForce, RecomputePerStageIsSearchedWithTheCuts) {
  std::mt19937 random(23);
  int only_with = 0, faster_with = 0;
  LayersCase drawn;
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE(round);
    constexpr int kLimits = 8;
    if (round % kLimits == 0) drawn = random_case(random, 7, round > kLimits);
    LayersCase made = drawn;
    made.devices = 2 + round / kLimits % 2;
    made.microbatches = 4;
    made.backward_ratio = round % 3 == 0 ? -2 : 2;
    for (auto& layer : made.layers) layer.saved *= 4;
    for (auto& [from, to, bytes] : made.edges) bytes /= 20;
    made.memory = 4000 + 600 * (round % kLimits);
    const int stages_per_rank = round % 4 == 3 && made.devices == 2 ? 2 : 1;
    const std::string schedule =
        "optimizer: adam\nschedule: {name: pfeife, stages_per_rank: " + std::to_string(stages_per_rank) + "}\n";
    made.extra = "recompute: auto\n" + schedule;
    compare(made, stages_per_rank, "open", {Recompute::None, Recompute::Full});
    const auto open = experiment_of(made);
    const planner::Answer best = plan_pfeife(*open);
    made.extra = "recompute: none\n" + schedule;
    const auto without = experiment_of(made);
    const planner::Answer without_recompute = plan_pfeife(*without);
    if (best.candidates.empty()) continue;
    if (without_recompute.candidates.empty())
      ++only_with;
    else if (metric(best.candidates.front(), "step_time_s") < metric(without_recompute.candidates.front(), "step_time_s"))
      ++faster_with;
  }
  EXPECT_GT(only_with, 2);
  EXPECT_GT(faster_with, 0);
}

// The answer is the same, byte for byte, on any number of threads: members are searched in waves that do not know of each other.
TEST(Threads, TheAnswerIsTheSameForAnyNumber) {
  std::mt19937 random(29);
  for (const bool limited : {false, true}) {
    for (const bool skips : {false, true}) {
      LayersCase made = random_case(random, 20, skips);
      made.devices = 3;
      made.microbatches = 6;
      made.backward_ratio = -2;
      if (limited) made.memory = 20 * 175 * 4;
      made.extra = std::string("optimizer: adam\nschedule: ") + (limited ? "{name: pfeife, stages_per_rank: 2}\n" : "auto\n");
      const auto experiment = experiment_of(made);
      const std::string alone = to_json(plan_pfeife(*experiment, 5, 1));
      EXPECT_EQ(to_json(plan_pfeife(*experiment, 5, 2)), alone) << limited << skips;
      EXPECT_EQ(to_json(plan_pfeife(*experiment, 5, 4)), alone) << limited << skips;
      EXPECT_THAT(alone, testing::HasSubstr("\"feasible\": true"));
    }
  }
}

// The calling thread reports progress, and a search that is stopped at once reports that.
TEST(Threads, ProgressAndStop) {
  std::mt19937 random(31);
  LayersCase made = random_case(random, 40, false);
  made.devices = 4;
  made.microbatches = 8;
  const auto experiment = experiment_of(made);
  planner::SearchOptions options;
  options.method = planner::Method::Pfeife;
  options.threads = 3;
  std::atomic<bool> stop{false};
  options.stop = &stop;
  const auto caller = std::this_thread::get_id();
  int reported = 0;
  std::int64_t evaluated = 0;
  options.progress = [&](const planner::SearchState& state) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_GE(state.evaluated, evaluated);
    evaluated = state.evaluated;
    if (++reported == 3) stop = true;
  };
  const planner::Answer answer = planner::search(*experiment, options);
  EXPECT_GE(reported, 3);
  EXPECT_TRUE(answer.interrupted);
  EXPECT_FALSE(answer.search.proved_optimal);
  EXPECT_FALSE(answer.candidates.empty());
}

// Whole family with its other schedules and split backwards, small enough to try all.
TEST(BruteForce, OtherFamiliesWithSplitBackwardAreSearchedToo) {
  std::mt19937 random(17);
  for (int round = 0; round < 3; ++round) {
    LayersCase made = random_case(random, 6, false);
    made.devices = 2;
    made.microbatches = 4;
    made.backward_ratio = -2;
    made.extra = "schedule: auto\n";
    compare(made, 3, "round " + std::to_string(round));
  }
}

// A bound that is not reached must still be one: 60 units, where only the local search finds an end.
TEST(BruteForce, BoundsStayBelowWhatIsFoundOnLongerChains) {
  std::mt19937 random(19);
  for (int round = 0; round < 4; ++round) {
    LayersCase made = random_case(random, 60, false);
    made.devices = 4;
    made.microbatches = 8;
    made.extra = "schedule: {name: pfeife, stages_per_rank: 2}\n";
    const auto experiment = experiment_of(made);
    const planner::Answer answer = plan_pfeife(*experiment);
    ASSERT_FALSE(answer.candidates.empty());
    const double found = metric(answer.candidates.front(), "step_time_s");
    EXPECT_LE(answer.search.lower_bound, found);
    EXPECT_GE(answer.search.lower_bound, 0.9 * found);  // the relaxed problem comes near
  }
}

}  // namespace
}  // namespace panpipe::test
