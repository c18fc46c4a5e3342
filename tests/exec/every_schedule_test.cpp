// Every schedule of the table, and any that is read from a file, computes what one process computes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

constexpr int kMicrobatches = 8;

class EverySchedule : public testing::TestWithParam<std::string> {};

TEST_P(EverySchedule, EqualsOneProcess) {
  const Workload whole = small_model("gpt"), cut = small_model("gpt", 2);
  int ran = 0;
  for (const int ranks : {2, 4}) {
    std::optional<Schedule> schedule;
    try {
      schedule = make_schedule(GetParam(), ranks, kMicrobatches);
    } catch (const InputError&) {  // the family does not exist at this size
      continue;
    }
    if (schedule->chains.front().size() > whole.graph->units.size()) continue;
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const auto run = [&](const Workload& workload, int tensor) {
      std::optional<SliceGraph> slices;
      if (schedule->splits > 1) slices = small_slices("gpt", schedule->splits, tensor);
      return train(*workload.graph, plan_over(*workload.graph, *schedule), slices ? &*slices : nullptr);
    };
    expect_equal(alone("gpt", kMicrobatches), run(whole, 1));
    ++ran;
    if (ranks > 2) continue;
    SCOPED_TRACE("two tensor-parallel ranks each");
    expect_equal(alone("gpt", kMicrobatches), run(cut, 2));
  }
  EXPECT_GT(ran, 0);
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families()) names.emplace_back(family.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, EverySchedule, testing::ValuesIn(families()), [](const auto& family) {
  std::string name = family.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// The order counts, not the family: it is written out and read back.
TEST(ScheduleOfAFile, EqualsOneProcess) {
  const Workload workload = small_model("gpt");
  for (const std::string family : {"zb-v", "stp", "dualpipe"}) {
    SCOPED_TRACE(family);
    const Schedule read = read_schedule_csv(to_csv(make_schedule(family, 2, kMicrobatches), false), "from a file");
    expect_equal(alone("gpt", kMicrobatches), train(workload, read));
  }
}

// Each activation stays, is made again or waits in the host's memory, and some of each kind do.
TEST(ScheduleOfAFile, PlacedRecomputeAndOffloadEqualOneProcess) {
  const Workload workload = small_model("gpt");
  PassCosts costs;
  costs.offload = 2;
  for (const char* base : {"1f1b", "zb-v-auto", "gis-h"}) {
    SCOPED_TRACE(base);
    const Schedule order =
        make_schedule("auto-memory", 2, kMicrobatches, {{"base", base}, {"memory", "2"}, {"ways", "both"}}, costs);
    expect_equal(alone("gpt", kMicrobatches), train(workload, order));
  }
}

// The searched orders that are shipped, on a model with a unit for each of their 16 stages.
TEST(ScheduleOfAFile, ShippedOrdersEqualOneProcess) {
  WorkloadRequest request = small_request("gpt");
  request.layers = 8;
  const Workload workload = make_workload(request, {.degrees = {.micro = 2}, .precision = Precision::Fp32});
  ASSERT_GE(workload.graph->units.size(), 16u);
  const Trained one = alone(workload, kMicrobatches);
  for (const char* name : {"wave-p4-m8-8k.csv", "wave-p4-m8-32k.csv"}) {
    SCOPED_TRACE(name);
    const Schedule order = load_schedule_csv(std::string(PANPIPE_SCENARIOS "/schedules/") + name);
    ASSERT_EQ(order.microbatches, kMicrobatches);
    expect_equal(one, train(workload, order));
  }
}

// Rounds begin on both ranks: each rank runs forwards and backwards of parts whose other half runs on the other one, and some
// parameters have gradients on one rank alone.
TEST(ScheduleOfAFile, SlotsThatBeginOnEachRankEqualOneProcess) {
  const Workload workload = small_model("gpt");
  for (const auto& [forward, backward] : {std::pair{1, 2}, {2, 3}}) {
    const Schedule order =
        make_schedule("roundpipe", 2, kMicrobatches,
                      {{"forward_slots", std::to_string(forward)}, {"backward_slots", std::to_string(backward)}});
    ASSERT_EQ(order.chains.size(), 2U);
    const Schedule read = read_schedule_csv(to_csv(order, false), "from a file");
    expect_equal(alone("gpt", kMicrobatches), train(workload, read));
  }
}

// R before every backward.
Schedule with_recompute(Schedule schedule) {
  for (std::vector<Action>& row : schedule.order) {
    std::vector<Action> longer;
    for (const Action& action : row) {
      if (action.kind == ActionKind::B || action.kind == ActionKind::I) {
        longer.push_back(action);
        longer.back().kind = ActionKind::R;
      }
      longer.push_back(action);
    }
    row = std::move(longer);
  }
  return schedule;
}

// R stands in the order: the forward keeps its inputs only, and the backward finds what R rebuilt.
TEST(ScheduleWithRecompute, EqualsOneProcess) {
  for (const int tensor : {1, 2}) {
    const Workload workload = small_model("gpt", tensor);
    for (const std::string family : {"1f1b", "zb-v"}) {
      SCOPED_TRACE(fmt::format("{} over {} tensor-parallel ranks", family, tensor));
      const Schedule schedule = with_recompute(make_schedule(family, 2, kMicrobatches));
      const Trained run = train(workload, schedule);
      expect_equal(alone("gpt", kMicrobatches), run);
      const auto recomputed = std::count_if(run.spans[0].begin(), run.spans[0].end(), [](const Span& span) {
        return span.lane == Lane::Compute && span.action.kind == ActionKind::R;
      });
      EXPECT_EQ(recomputed, family == "1f1b" ? kMicrobatches : 2 * kMicrobatches);
    }
  }
}

// The memory options that families share: what is recomputed and parked, also between I and W, is computed as ever.
TEST(ScheduleWithMemoryOptions, EqualsOneProcess) {
  const std::vector<std::pair<std::string, ScheduleOptions>> cases = {
      {"1f1b", {{"recompute", "1"}, {"offload", "full"}}},
      {"zb-h1", {{"offload", "full"}, {"offload_waiting", "true"}}},
      {"zb-v", {{"offload", "selective"}, {"offload_waiting", "true"}}},
      {"interleaved-1f1b", {{"offload", "full"}, {"offload_stagger", "2"}}}};
  const Workload workload = small_model("gpt");
  for (const auto& [family, options] : cases) {
    SCOPED_TRACE(family);
    const Schedule schedule = make_schedule(family, 2, kMicrobatches, options);
    expect_equal(alone("gpt", kMicrobatches), train(workload, schedule));
  }
}

// OFFLOAD after every forward, RELOAD before every backward.
Schedule with_offload(Schedule schedule) {
  for (std::vector<Action>& row : schedule.order) {
    std::vector<Action> longer;
    for (const Action& action : row) {
      const auto add = [&](ActionKind kind) {
        longer.push_back(action);
        longer.back().kind = kind;
      };
      if (action.kind == ActionKind::B || action.kind == ActionKind::I) add(ActionKind::Reload);
      longer.push_back(action);
      if (action.kind == ActionKind::F) add(ActionKind::Offload);
    }
    row = std::move(longer);
  }
  return schedule;
}

// Offloaded activations come back, and nothing is computed differently.
TEST(ScheduleWithOffload, EqualsOneProcess) {
  for (const int tensor : {1, 2}) {
    const Workload workload = small_model("gpt", tensor);
    for (const std::string family : {"1f1b", "zb-v"}) {
      SCOPED_TRACE(fmt::format("{} over {} tensor-parallel ranks", family, tensor));
      const Schedule schedule = with_offload(make_schedule(family, 2, kMicrobatches));
      const Trained run = train(workload, schedule);
      expect_equal(alone("gpt", kMicrobatches), run);
      std::int64_t away = 0, back = 0;
      int copies = 0;
      for (const Span& span : run.spans[0]) {
        if (span.lane != Lane::Copy) continue;
        ++copies;
        (span.action.kind == ActionKind::Offload ? away : back) += span.bytes.base();
      }
      EXPECT_EQ(copies, (family == "1f1b" ? 2 : 4) * kMicrobatches);
      EXPECT_GT(away, 0);
      EXPECT_EQ(back, away);
    }
  }
}

// Two copies of the model run against each other: the halves of the samples go to one each, and the loss is that of all.
TEST(Bidirectional, EachPathTakesItsHalfOfTheSamples) {
  const Workload workload = small_model("llama");
  const Trained one = alone(workload, kMicrobatches);
  for (const std::string family : {"dualpipe", "chimera"}) {
    SCOPED_TRACE(family);
    const Plan plan = plan_of(*workload.graph, family, 2, kMicrobatches);
    ASSERT_EQ(plan.schedule.chains.size(), 2u);
    expect_equal(one, train(*workload.graph, plan));
    expect_equal(one, train(workload, family, 2, kMicrobatches / 2, 2));
  }
}

}  // namespace
}  // namespace panpipe::exec
