// Steps in a row without a flush: their rows, their legality, and their period.
#include "schedule/rolling.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/error.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

std::string text_of(const Row& row) {
  std::string text;
  for (const Action& action : row) text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

PassCosts costs_of(double f, double i, double w, double comm = 0) {
  PassCosts costs;
  costs.F = f, costs.I = i, costs.W = w, costs.comm = comm;
  return costs;
}

// From one update to that of the next step, averaged over the last `window` of many steps.
double period_of_many(const Schedule& schedule, const PassCosts& costs, int steps, int window) {
  const Schedule all = rolled(schedule, steps);
  const ScheduleEvaluation evaluation = *evaluate_if_it_ends(all, costs);
  double longest = 0;
  for (std::size_t rank = 0; rank < all.order.size(); ++rank) {
    std::vector<double> ends;
    double end = 0;
    for (std::size_t i = 0; i < all.order[rank].size(); ++i) {
      if (all.order[rank][i].is_compute()) end = evaluation.times[rank][i].second;
      if (all.order[rank][i].kind == ActionKind::Opt) ends.push_back(end);
    }
    longest = std::max(longest, (ends[steps - 2] - ends[steps - 2 - window]) / window);
  }
  return longest;
}

TEST(Rolling, ForwardsOfTheNextStepFillTheDrain) {
  const Schedule two = rolled(make_schedule("pipedream-2bw", 3, 3), 2);
  EXPECT_EQ(text_of(two.order[0]), "0F0 0F1 0F2 0B0 0F3 0B1 0F4 0B2 OPT 0F5 0B3 0B4 0B5 OPT");
  EXPECT_EQ(text_of(two.order[2]), "2F0 2B0 2F1 2B1 2F2 2B2 OPT 2F3 2B3 2F4 2B4 2F5 2B5 OPT");
  EXPECT_EQ(two.microbatches, 6);
  // Between two updates: the forwards that ran ahead are not run again, and are run from idle ranks or after a drain.
  const Schedule one = make_schedule("pipedream-2bw", 3, 3);
  EXPECT_EQ(text_of(step_row(one, 0, false, false)), "0F2 0B0 0F3 0B1 0F4 0B2");
  EXPECT_EQ(text_of(step_row(one, 0, true, true)), text_of(one.order[0]));
}

TEST(Rolling, WithoutOptIsThatManyMicrobatchesOf1F1B) {
  for (const auto& [p, m] : {std::pair{1, 1}, {2, 2}, {4, 4}, {4, 7}, {8, 16}}) {
    Schedule all = rolled(make_schedule("pipedream-2bw", p, m), 3);
    for (Row& row : all.order) std::erase_if(row, [](const Action& a) { return a.kind == ActionKind::Opt; });
    EXPECT_EQ(all.order, make_schedule("1f1b", p, 3 * m).order);
  }
}

TEST(Rolling, RecomputeStaysBeforeItsBackward) {
  const Schedule two = rolled(make_schedule("pipedream-2bw", 2, 2, {{"recompute", "full"}}), 2);
  EXPECT_EQ(text_of(two.order[0]), "0F0 0F1 0R0 0B0 0F2 0R1 0B1 OPT 0F3 0R2 0B2 0R3 0B3 OPT");
}

TEST(Rolling, APeriodIsTheBusiestRanksWork) {
  // The ring is long enough without delays: M (F + I + W), after a first step of (M + P - 1) (F + I + W).
  for (const auto& [p, m] : {std::pair{1, 3}, {2, 2}, {4, 8}, {8, 8}, {8, 20}}) {
    const ScheduleEvaluation evaluation = evaluate(make_schedule("pipedream-2bw", p, m), costs_of(1, 1, 1));
    EXPECT_DOUBLE_EQ(*evaluation.period, 3.0 * m);
    EXPECT_DOUBLE_EQ(evaluation.makespan, 3.0 * (m + p - 1));
  }
  // Stage 1 takes 2 + 2 + 1 instead of 3: 8 microbatches of 5.
  PassCosts uneven;
  uneven.stages = {{1, 1, 1}, {2, 2, 1}, {1, 1, 1}, {1, 1, 1}};
  EXPECT_DOUBLE_EQ(*evaluate(make_schedule("pipedream-2bw", 4, 8), uneven).period, 40);
}

TEST(Rolling, APeriodIsTheRingWhereDelaysAreLong) {
  // P microbatches are under way. From a forward of rank 0 to that P later: P (1 + 2) of work and 2 (P - 1) delays of 1, for P
  // microbatches. P = 4, M = 8: 2 (12 + 6).
  EXPECT_DOUBLE_EQ(*evaluate(make_schedule("pipedream-2bw", 4, 8), costs_of(1, 1, 1, 1)).period, 36);
  // M = 6 is no multiple of 4: 6 / 4 (12 + 6), over the two steps after which 4, 3 and 2 divide the microbatches.
  EXPECT_EQ(steps_in_window(make_schedule("pipedream-2bw", 4, 6)), 2);
  EXPECT_DOUBLE_EQ(*evaluate(make_schedule("pipedream-2bw", 4, 6), costs_of(1, 1, 1, 1)).period, 27);
}

TEST(Rolling, PostValidationOverlapsStepsThatEndAtDifferentTimes) {
  // ZB-H1 ends rank by rank as it begins: a step every M (F + I + W) once P - 1 forwards' shift is no longer waited for. 1F1B's
  // rank 0 begins first and ends last, so nothing overlaps: (M + P - 1) (F + I + W).
  const ScheduleEvaluation plain = evaluate(make_schedule("1f1b", 4, 8, {{"post_validation", "true"}}), costs_of(1, 1, 1));
  EXPECT_DOUBLE_EQ(*plain.period, 33);
  EXPECT_DOUBLE_EQ(plain.makespan, 33);
  const ScheduleEvaluation shifted = evaluate(make_schedule("zb-h2", 4, 8, {{"post_validation", "true"}}), costs_of(1, 1, 1));
  EXPECT_LT(*shifted.period, shifted.makespan);
  EXPECT_GE(*shifted.period, 24);
  EXPECT_FALSE(evaluate(make_schedule("zb-h2", 4, 8), costs_of(1, 1, 1)).period);
}

// What a few steps give, many steps give too: random sizes, uneven stages, delays. Rings of 5 and 3 or 4 repeat together after
// more steps than are rolled: within 1 % there.
TEST(Rolling, AFewStepsHaveThePeriodOfMany) {
  std::mt19937 random(38);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int trial = 0; trial < 200; ++trial) {
    const int p = draw(1, 6), m = p + draw(0, 9);
    const bool stale = trial % 3 != 0;
    const Schedule schedule = stale ? make_schedule("pipedream-2bw", p, m)
                                    : make_schedule(trial % 2 != 0 ? "zb-h2" : "1f1b", p, m, {{"post_validation", "true"}});
    PassCosts costs;
    costs.comm = draw(0, 4);
    for (int s = 0; s < p; ++s) costs.stages.push_back({1.0 * draw(1, 20), 1.0 * draw(1, 20), 1.0 * draw(1, 20)});
    const int window = 60;  // a multiple of every pattern of up to six ranks
    const double many = period_of_many(schedule, costs, 130, window), few = *rolling_period(schedule, costs);
    const bool repeats = p < 5 || m % 5 == 0;
    EXPECT_NEAR(few, many, (repeats ? 1e-9 : 1e-2) * many) << schedule.name << " P" << p << " M" << m << " trial " << trial;
    double busiest = 0;
    for (const auto& stage : costs.stages) busiest = std::max(busiest, m * (stage.F + stage.I + stage.W));
    EXPECT_GE(few, busiest * (1 - 1e-9));
  }
}

// A row is one step, however often its end states an update.
TEST(Rolling, OneUpdateEndsARow) {
  Schedule once = make_schedule("1f1b", 2, 2, {{"post_validation", "true"}}), twice = once;
  for (Row& row : twice.order) row.push_back(row.back());
  EXPECT_EQ(text_of(rolled(twice, 2).order[0]), text_of(rolled(once, 2).order[0]));
}

ScheduleOptions versions(int number) { return {{"versions", std::to_string(number)}}; }

// One microbatch a step is PipeDream's: rank 0 runs P forwards before the first update, whose weights the forward behind it could
// read first. All ranks read version t - (P - 1) then.
TEST(Rolling, FewMicrobatchesTakeMoreVersions) {
  const Schedule one = make_schedule("pipedream-2bw", 3, 1, versions(3));
  EXPECT_EQ(weight_versions(one), 3);
  EXPECT_EQ(staleness(one), 2);
  const Schedule all = rolled(one, 4);
  EXPECT_EQ(text_of(all.order[0]), "0F0 0F1 0F2 0B0 OPT 0F3 0B1 OPT 0B2 OPT 0B3 OPT");
  EXPECT_EQ(text_of(all.order[2]), "2F0 2B0 OPT 2F1 2B1 OPT 2F2 2B2 OPT 2F3 2B3 OPT");
  EXPECT_EQ(weight_versions(all), 3);  // of several steps in a row too
  EXPECT_EQ(evaluate(one, {}).peak_activations, (std::vector<int>{3, 2, 1}));
  // The first forward of step t on rank 0 is number t M; P - 1 backwards before it are open, those of ceil((P - 1) / M) steps.
  EXPECT_EQ(versions_needed(8, 1), 8);
  EXPECT_EQ(versions_needed(8, 3), 4);
  EXPECT_EQ(versions_needed(8, 7), 2);
  EXPECT_EQ(versions_needed(8, 8), 2);
  // Equal stages wait for nothing, whatever the number of versions: M (F + I + W) each.
  for (const auto& [p, m] : {std::pair{4, 1}, {4, 2}, {4, 3}, {8, 3}, {16, 1}})
    EXPECT_DOUBLE_EQ(*evaluate(make_schedule("pipedream-2bw", p, m, versions(versions_needed(p, m))), {}).period, 3.0 * m);
}

// No update may come later than the first forward that has to read it, on any rank: of step t that is update t - k + 1.
TEST(Rolling, VersionsSuffice) {
  for (int p = 1; p <= 9; ++p)
    for (int m = 1; m <= 10; ++m) {
      const int k = versions_needed(p, m), steps = 12;
      const Schedule all = rolled(make_schedule("pipedream-2bw", p, m, versions(k)), steps);
      int slack = steps;
      for (const Row& row : all.order) {
        int updates = 0;
        for (const Action& a : row) {
          if (a.kind == ActionKind::Opt) ++updates;
          if (a.kind == ActionKind::F) slack = std::min(slack, updates - (a.microbatch / m - k + 1));
        }
        EXPECT_EQ(updates, steps);
      }
      EXPECT_GE(slack, 0) << p << " " << m;
      EXPECT_TRUE(slack == 0 || p == 1) << p << " " << m;  // with one less there would be such a forward
    }
}

TEST(Rolling, OneVersionTakesTheFlush) {
  const Schedule one = make_schedule("pipedream-2bw", 4, 8, versions(1));
  EXPECT_EQ(rolling_of(one), Rolling::None);
  EXPECT_EQ(one.order, make_schedule("1f1b", 4, 8).order);
}

TEST(Rolling, RefusesOtherNumbersOfVersions) {
  const auto fault = [](int ranks, int microbatches, int number) {
    try {
      make_schedule("pipedream-2bw", ranks, microbatches, versions(number));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(fault(4, 2, 2).find("holds 3 versions of the weights, not 2: state versions=3, or take 4 microbatches for 2"),
            std::string::npos);
  EXPECT_NE(fault(4, 8, 3).find("holds 2 versions of the weights, not 3: state versions=2"), std::string::npos);
  EXPECT_THROW(make_schedule("pipedream-2bw", 2, 4, {{"post_validation", "true"}}), InputError);
}

}  // namespace
}  // namespace panpipe
