// The arena's figures of schedules: closed forms, both engines, bounds that hold, orders that no family reaches, bad input.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "schedule/find_family.hpp"
#include "schedule/search/placed_search.hpp"
#include "schedule/search/rows.hpp"
#include "schedule/step_bound.hpp"
#include "sim/simulate.hpp"
#include "tests/fault.hpp"
#include "tests/study/arena/requests.hpp"

namespace panpipe::study {
namespace {

using ::testing::HasSubstr;

const std::string kWave8k = PANPIPE_SCENARIOS "/schedules/wave-p4-m8-8k.csv";
const std::string kWave32k = PANPIPE_SCENARIOS "/schedules/wave-p4-m8-32k.csv";

// A step of GPipe and 1F1B is the work of a rank, m (F + B), and p - 1 times F + B of waiting: bubble (p - 1) / (m + p - 1).
// GPipe holds all m microbatches; of 1F1B rank i holds p - i, so the first p and the last 1.
TEST(Arena, ClosedFormsOfOneStageARank) {
  for (const int p : {2, 4, 8})
    for (const int m : {p, 2 * p, 3 * p + 1}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} microbatches", p, m));
      const Judged gpipe = judged_alone("gpipe", p, m, "10:12:8"), alternating = judged_alone("1f1b", p, m, "10:12:8");
      for (const Judged& judged : {gpipe, alternating}) {
        EXPECT_NEAR(judged.bubble, (p - 1.0) / (m + p - 1), 1e-12);
        EXPECT_NEAR(judged.makespan, (m + p - 1) * (1 + 1.2 + 0.8), 1e-9);
      }
      EXPECT_EQ(gpipe.held, m);
      EXPECT_EQ(alternating.held, p);
      EXPECT_EQ(alternating.held_least, 1);
    }
}

// Chunks of 1 / v make 1F1B's bubble v times shorter, (p - 1)(F + B) / v next to m (F + B); ZB-H1 waits (p - 1)(F + I - W).
TEST(Arena, ClosedFormsOfChunksAndOfSplitBackwards) {
  for (const int v : {2, 4}) {
    const Judged looped = judged_alone(fmt::format("interleaved-1f1b,stages_per_rank={}", v), 4, 8);
    EXPECT_NEAR(looped.makespan, 8 * 3 + 3 * 3.0 / v, 1e-9);
    EXPECT_EQ(looped.stages_per_rank, v);
    EXPECT_NEAR(looped.held, (4.0 * (v + 1) - 1) / v, 1e-12);  // (v + 1) p - 1 chunks on the first rank
  }
  EXPECT_NEAR(judged_alone("zb-h1", 4, 8).makespan, 8 * 3 + 3, 1e-9);
  EXPECT_NEAR(judged_alone("zb-h1", 4, 8).over_bound(), 0, 1e-9);  // no order holds 4 and is shorter
  EXPECT_EQ(judged_alone("dualpipe", 4, 8).weights, 2);
  EXPECT_FALSE(judged_alone("dualpipe", 4, 8).bound_in_memory);  // two chains: a bound in any memory
}

// The step: 1F1B's own of 33, and an R in front of each B of the last rank. The bound is of orders that hold one activation and
// may recompute: on rank 2 each lives for F + F + I + I + W = 5, or for 2 F + I + W = 4 if it is made again. After two forwards
// of waiting, T - 2 is at least 8 x 3 + x and 40 - x: with all eight made again 32.
TEST(Arena, OrdersThatFreeActivationsEarlyAreBoundByTheirWays) {
  const Judged judged = judged_alone("1f1b,recompute=full", 4, 8);
  EXPECT_EQ(judged.makespan, 33 + 8);
  EXPECT_NEAR(judged.bound, 2 + 32, 1e-6);
  EXPECT_TRUE(judged.bound_in_memory);
  for (const char* entrant : {"1f1b", "hanayo", "looped-bfs", "gis-h", "gpipe", "1f1b-v", "dualpipe-v"})
    for (const char* option : {"recompute=full", "offload=selective", "recompute=1"})
      for (const char* ratio : {"even", "1:2:0.1"}) {
        SCOPED_TRACE(fmt::format("{},{} under {}", entrant, option, ratio));
        const Judged one = judged_alone(fmt::format("{},{}", entrant, option), 4, 8, ratio);
        EXPECT_LE(one.bound, one.makespan * (1 + 1e-12));
      }
  EXPECT_TRUE(judged_alone("stp,offload=selective", 4, 16).legal());  // options are read at the arena's size
}

// The step in ms on links that take no time to speak of is the plain one: the cut's bytes of GPT-2 large against its passes on an
// NVSwitch. And 1F1B pays for links at every turn, so never less.
TEST(Arena, ClusterTimesStandOnThePlainOnes) {
  ArenaRequest request = request_of({read_entrant("gpipe"), read_entrant("1f1b"), read_entrant("zb-v-auto")}, 4, 8, "32k");
  request.clusters = {"h100x8", "rtx3090x8-nobridge"};
  const Arena arena = judge(request);
  // 184.7 TFLOP at half of 989.4 TFLOP/s.
  const double forward_s = 184.7e12 / (0.5 * 989.4e12);
  for (const Judged& judged : arena.rounds[0].judged) {
    EXPECT_GE(judged.on[0].estimated_s, judged.makespan * forward_s * (1 - 1e-6));
    EXPECT_LT(judged.on[0].estimated_s, judged.makespan * forward_s * 1.02);
    EXPECT_GE(judged.on[0].simulated_s, judged.on[0].estimated_s * (1 - 1e-9));
    EXPECT_GT(judged.on[1].simulated_s, judged.on[0].simulated_s * 10);  // 71 against 989 TFLOP/s
  }
}

// SimGrid's step is ours, for every family and for orders of files.
TEST(Arena, BothBackEndsAgree) {
  if (!sim::has_backend(sim::Backend::SimGrid)) GTEST_SKIP() << sim::why_no_backend(sim::Backend::SimGrid);
  std::vector<Entrant> entrants = {read_entrant(kWave8k), read_entrant(kWave32k)};
  for (const char* family : {"1f1b", "zb-v", "interleaved-1f1b", "dualpipe", "seq-1f1b"})
    entrants.push_back(read_entrant(family));
  ArenaRequest request = request_of(std::move(entrants), 4, 8, "even");
  request.clusters = {"rtx3090x8-nobridge", "dgx-a100-80g"};
  const Arena ours = judge(request);
  request.simulate = simulated_by(sim::Backend::SimGrid);
  const Arena simgrid = judge(request);
  for (std::size_t i = 0; i < request.entrants.size(); ++i)
    for (std::size_t c = 0; c < request.clusters.size(); ++c) {
      SCOPED_TRACE(request.entrants[i].name);
      const double step = ours.rounds[0].judged[i].on[c].simulated_s;
      EXPECT_GT(step, 0);
      EXPECT_NEAR(simgrid.rounds[0].judged[i].on[c].simulated_s, step, 1e-6 * step);
    }
}

// A head of h behind the last stage of 1F1B, whose rank is the slowest: its own m (F + I + W + 3 h), and on the way of the first
// microbatch to it and of the last one back (p - 1)(F + I + W). Cut over the ranks, each has 3 h / p of it for each microbatch:
// the bound by work is m (F + I + W + 3 h / p).
TEST(Units, AHeadIsOnTheLastStageOrCutOverAllRanks) {
  for (const double head : {0.25, 1.0}) {
    const std::string ratio = fmt::format("1:1:1:head={:g}", head);
    const Judged whole = judged_alone("1f1b", 4, 8, ratio);
    EXPECT_NEAR(whole.makespan, 8 * (3 + 3 * head) + 3 * 3, 1e-9);
    for (const int barriers : {1, 2}) {
      const Judged cut = judged_alone(fmt::format("1f1b,vocabulary=stages,vocabulary_barriers={}", barriers), 4, 8, ratio);
      ASSERT_TRUE(cut.legal());
      EXPECT_GE(cut.bound, 8 * (3 + 3 * head / 4));
      EXPECT_LT(cut.makespan, whole.makespan);
      EXPECT_GT(cut.held, whole.held);  // one more microbatch is in flight for each barrier
    }
  }
  // Without a head its passes take nothing, and the order waits as it is drawn.
  EXPECT_GE(judged_alone("1f1b,vocabulary=stages", 4, 8).makespan, judged_alone("1f1b", 4, 8).makespan);
}

// One rank, GPipe, 4 microbatches: F0-F3, B3.. all F = 1, B = 2 and copies of c. Without waiting 12; the peak falls where copies
// have time to end.
TEST(Units, CopiesTakeTheTimeOfTheRatio) {
  EXPECT_EQ(judged_alone("gpipe,offload=selective", 1, 4, "1:1:1:copy=1").held, 3);
  EXPECT_EQ(judged_alone("gpipe,offload=selective", 1, 4, "1:1:1:copy=100").makespan, 12);  // none is hidden: none is made
}

// Microbatches of 2, 1, 1, 2 halves on two ranks: in relation to the mean of 1.5, 4/3, 2/3, 2/3, 4/3. F = B / 2 = 1, GPipe:
// F: rank 0 ends at 4/3, 2, 8/3, 4; rank 1 begins at 4/3, ends at 8/3, 10/3, 4, 16/3. B in the order 0, 1, 2, 3: rank 1 ends at
// 8, 28/3, 32/3, 40/3, rank 0's last one starts there and takes 8/3: 16. All four are held, in sum 4.
TEST(Units, MicrobatchesOfUnequalLength) {
  const Judged unequal = judged_alone("gpipe", 2, 4, "1:1:1:lengths=2/1/1/2");
  EXPECT_NEAR(unequal.makespan, 16, 1e-9);
  EXPECT_NEAR(unequal.held, 4, 1e-9);
  // 1F1B holds two neighbours at most: 4/3 + 2/3.
  EXPECT_NEAR(judged_alone("1f1b", 2, 4, "1:1:1:lengths=2/1/1/2").held, 2, 1e-9);
  // Equal lengths, however they are written, are no lengths: every family, chain and slice.
  for (const Entrant& entrant : all_families()) {
    const Judged plain = judge(request_of({entrant}, 4, 8)).rounds[0].judged[0];
    const Judged equal = judge(request_of({entrant}, 4, 8, "even:lengths=7")).rounds[0].judged[0];
    if (!plain.legal() || !plain.flushes) continue;
    EXPECT_NEAR(equal.makespan, plain.makespan, 1e-9) << entrant.name;
    EXPECT_NEAR(equal.held, plain.held, 1e-9) << entrant.name;
  }
  EXPECT_EQ(judged_alone("1f1b,vocabulary=stages", 4, 8, "even:lengths=1/2").refused,
            "microbatches of unequal length together with a vocabulary cut over the ranks have no unit here");
}

// Without a flush: the work of a rank, m (F + B), with two versions of the weights; it wins nothing, since it trains something
// else. Post-validation of ZB-H2 keeps its results, and wins.
TEST(Units, ThePeriodOfStepsWithoutAFlush) {
  ArenaRequest request =
      request_of({read_entrant("pipedream-2bw"), read_entrant("zb-h2,post_validation=true"), read_entrant("zb-h2")}, 4, 8);
  request.clusters = {"h100x8"};
  const Arena arena = judge(request);
  const Judged &stale = arena.rounds[0].judged[0], &validated = arena.rounds[0].judged[1], &flushed = arena.rounds[0].judged[2];
  EXPECT_EQ(stale.makespan, 24);
  EXPECT_EQ(stale.bound, 24);
  EXPECT_EQ(stale.held, 4);
  EXPECT_EQ(stale.weights, 2);
  EXPECT_EQ(stale.staleness, 1);
  EXPECT_NEAR(stale.bubble, 0, 1e-12);
  EXPECT_EQ(validated.staleness, 0);
  EXPECT_LT(validated.makespan, flushed.makespan);
  EXPECT_EQ(fastest_within(arena, arena.rounds[0], 4, -1), -1);
  EXPECT_EQ(fastest_within(arena, arena.rounds[0], 7, -1), 1);
  EXPECT_FALSE(on_front(arena.rounds[0], stale));
  EXPECT_LT(stale.on[0].simulated_s, flushed.on[0].simulated_s);
}

// RoundPipe on 4 ranks: 2 slots of forward and 6 of backward, each of the latter 4 / 6 of a rank's share. With F = I = W = 1 one
// takes (R + B) 2 = 4 x 3 / 6, as the turn does, and a slot of forward 4 x 5 / 6 / 2 = 5/3. A microbatch: 2 x 5/3 + 6 x 2 of
// work.
TEST(Units, SlotsOfAScheduleWithoutHomes) {
  const Judged judged = judged_alone("roundpipe", 4, 8);
  ASSERT_TRUE(judged.legal()) << judged.refused;
  EXPECT_TRUE(judged.on_host);
  EXPECT_GE(judged.makespan, 8 * (2 * 5.0 / 3 + 6 * 2) / 4 - 1e-9);
  EXPECT_LT(judged.makespan, 2 * 8 * (2 * 5.0 / 3 + 6 * 2) / 4);
  EXPECT_NEAR(judged.held, 4.0 / 6, 1e-9);  // one part of the backward at a time
}

// Every family takes part, or the reason is one of its sizes.
TEST(Units, EveryFamilyIsJudgedOnClustersToo) {
  std::vector<Entrant> entrants = all_families();
  for (Entrant& cut : all_cut_vocabularies()) entrants.push_back(std::move(cut));
  entrants.push_back(read_entrant("gis-h,offload=full"));
  entrants.push_back(read_entrant("gis-h"));
  ArenaRequest request = request_of(std::move(entrants), 4, 12, "8k-vocabulary");
  request.clusters = {"h100x8"};
  request.ratios.push_back(read_cost_ratio("8k:lengths=2/1/1"));
  const Arena arena = judge(request);
  const double forward_s = 33e12 / (0.5 * 989.4e12);
  for (const Judged& judged : arena.rounds[0].judged) {
    const std::string& name = arena.request.entrants[judged.entrant].name;
    ASSERT_TRUE(judged.legal()) << name << ": " << judged.refused;
    EXPECT_GE(judged.makespan, judged.bound * (1 - 1e-9)) << name;
    EXPECT_EQ(judged.on[0].refused, "") << name;
    if (find_family(arena.request.entrants[judged.entrant].family)->searched()) continue;   // another order there
    EXPECT_GE(judged.on[0].simulated_s, judged.makespan * forward_s * (1 - 1e-6)) << name;  // links take time
  }
  for (const Judged& judged : arena.rounds[1].judged) {
    if (!judged.legal()) continue;
    EXPECT_EQ(judged.on[0].refused, "") << arena.request.entrants[judged.entrant].name;
  }
  // Copies take the links to the host: all of what is left is copied on PCIe.
  const auto& judged = arena.rounds[0].judged;
  EXPECT_GT(judged[judged.size() - 2].on[0].simulated_s, judged.back().on[0].simulated_s * 1.2);
}

// 1F1B with early receives stops where sends wait for their receives; nothing stops where nobody is held.
TEST(Arena, TransferSemanticsAreThoseOfTheOrder) {
  for (const char* family : {"1f1b", "gpipe", "zb-v", "interleaved-1f1b"}) {
    const Judged judged = judged_alone(family, 4, 8);
    ASSERT_EQ(judged.transfers.size(), 2u);
    for (const Transfers& transfers : judged.transfers)
      for (std::size_t i = 0; i < kTransferSemantics.size(); ++i) {
        EXPECT_TRUE(transfers.finishes[i] || !transfers.deadlock.empty());
        EXPECT_TRUE(transfers.finishes[i] || kTransferSemantics[i] != TransferSemantics::Asynchronous) << family;
      }
  }
  const Judged looped = judged_alone("interleaved-1f1b", 4, 8);
  EXPECT_FALSE(looped.transfers[1].finishes[2]);  // blocking, late receives: everyone sends first
  EXPECT_THAT(looped.transfers[1].deadlock, HasSubstr("blocking: rank "));
}

// No family beats its bound, whatever sizes and costs; searched ones state a bound of their own, which is this one.
TEST(Arena, NoOrderIsShorterThanItsBound) {
  for (const auto& [p, m] : {std::pair{2, 4}, {3, 6}, {4, 8}, {4, 12}})
    for (const char* ratio : {"even", "32k", "8k-recompute", "8k-lora", "8k-vocabulary"}) {
      const Arena arena = judge(request_of(all_families(), p, m, ratio));
      int legal = 0;
      for (const Judged& judged : arena.rounds[0].judged) {
        if (!judged.legal()) continue;
        ++legal;
        EXPECT_GE(judged.makespan, judged.bound * (1 - 1e-9)) << arena.request.entrants[judged.entrant].name;
      }
      EXPECT_GE(legal, 26);
    }
  EXPECT_GE(schedule_families().size(), 24u);
  EXPECT_GT(all_families().size(), schedule_families().size());
}

// The bound of waves and loops at memory that does not bind: the way of the first forward to the last rank, then that rank's
// work. p = 4, m = 8, v = 4, F = I = W = 1 / 4: 3 / 4 + 8 x 3 = 24.75, which interleaved zero bubble reaches.
TEST(Arena, BoundOfLoopsAndWaves) {
  PassCosts costs;
  costs.F = costs.I = costs.W = 0.25;
  const Schedule loop = make_schedule("interleaved-zero-bubble", 4, 8, {{"stages_per_rank", "4"}});
  EXPECT_NEAR(step_bound(loop, costs, 16).makespan, 24.75, 1e-12);
  EXPECT_NEAR(evaluate(loop, costs).makespan, 24.75, 1e-12);
  const Schedule wave = make_schedule("hanayo", 4, 8, {{"stages_per_rank", "4"}});
  EXPECT_NEAR(step_bound(wave, costs, 16).makespan, 24.75, 1e-12);
  EXPECT_GT(step_bound(wave, costs, 6).makespan, 24.75);
}

// Orders that the search finds are legal, hold what they may, and keep the bound; the same call gives the same order.
TEST(PlacedSearch, KeepsItsPromises) {
  for (const bool loop : {false, true})
    for (const auto& [p, m, chunks] : {std::tuple{2, 4, 3}, {3, 5, 2}, {4, 8, 4}})
      for (const int memory : {chunks, chunks * p * 3 / 4, chunks * p}) {
        search::OrderProblem problem{p, m, chunks, memory, 1, 1.3, 0.6, 0.05};
        problem.loop = loop;
        problem.effort = 0.02;
        const Schedule schedule = search::placed_schedule("found", problem, 5);
        EXPECT_TRUE(check_schedule(schedule).empty());
        PassCosts costs;
        costs.I = 1.3;
        costs.W = 0.6;
        costs.comm = 0.05;
        const ScheduleEvaluation evaluation = evaluate(schedule, costs);
        EXPECT_LE(*std::max_element(evaluation.peak_activations.begin(), evaluation.peak_activations.end()), memory);
        EXPECT_GE(evaluation.makespan, *schedule.lower_bound * (1 - 1e-9));
        EXPECT_EQ(to_csv(schedule, false), to_csv(search::placed_schedule("found", problem, 5), false));
      }
}

// docs/arena.md states: under 32k nothing of the table is shorter, in any memory and on any of the clusters, and no order of a
// wave of four stages a rank can be; under 8k nothing that holds 3 microbatches is.
TEST(ShippedOrders, AreBetterThanEveryFamily) {
  for (const auto& [file, ratio, held] : {std::tuple{kWave32k, "32k", 8.0}, {kWave8k, "8k", 3.0}}) {
    SCOPED_TRACE(file);
    std::vector<Entrant> entrants = all_families();
    entrants.push_back(read_entrant(file));
    const int own = static_cast<int>(entrants.size()) - 1;
    ArenaRequest request = request_of(std::move(entrants), 4, 8, ratio);
    request.clusters = {"rtx3090x8-nobridge", "dgx-a100-80g", "h100x8"};
    const Arena arena = judge(request);
    for (int cluster = -1; cluster < 3; ++cluster) EXPECT_EQ(fastest_within(arena, arena.rounds[0], held, cluster), own);
    EXPECT_TRUE(on_front(arena.rounds[0], arena.rounds[0].judged.back()));
    for (std::size_t i = 0; i + 1 < arena.rounds[0].judged.size(); ++i) {
      const Judged& family = arena.rounds[0].judged[i];
      if (!family.legal() || family.held > held || family.staleness > 0) continue;
      EXPECT_GT(family.makespan, 1.01 * arena.rounds[0].judged.back().makespan) << arena.request.entrants[i].name;
    }
  }
  EXPECT_LT(judged_alone(kWave32k, 4, 8, "32k").over_bound(), 1e-9);
}

TEST(Arena, RankingAndFront) {
  const Arena arena =
      judge(request_of({read_entrant("stp"), read_entrant("1f1b"), read_entrant("zb-v"), read_entrant("v-min")}, 4, 8));
  const std::vector<std::size_t> order = ranking(arena, arena.rounds[0]);
  EXPECT_THAT(order, ::testing::ElementsAre(2, 3, 1, 0));  // 25.5, 29.5, 33, and stp, which 8 microbatches are too few for
  EXPECT_EQ(fastest_within(arena, arena.rounds[0], 4, -1), 2);
  EXPECT_EQ(fastest_within(arena, arena.rounds[0], 3.9, -1), 3);
  EXPECT_EQ(fastest_within(arena, arena.rounds[0], 1, -1), -1);
  EXPECT_FALSE(on_front(arena.rounds[0], arena.rounds[0].judged[1]));  // zb-v holds 4 as well
  EXPECT_THAT(arena.rounds[0].judged[0].refused, HasSubstr("stp needs at least 3P-1 = 11 microbatches on 4 ranks, not 8"));
}

TEST(Arena, DocumentStatesWhatTheTableStates) {
  ArenaRequest request = request_of({read_entrant("zb-h1"), read_entrant("stp")}, 4, 8);
  request.clusters = {"h100x8"};
  const Arena arena = judge(request);
  const auto document = nlohmann::json::parse(to_json(arena));
  EXPECT_EQ(document["schema"], "panpipe-arena/1");
  const auto& first = document["rounds"][0]["schedules"][0];
  EXPECT_EQ(first["schedule"], "zb-h1");
  EXPECT_EQ(first["makespan"], 27);
  EXPECT_EQ(first["held"], 4);
  EXPECT_EQ(first["transfers"][0]["receives"], "early");
  EXPECT_EQ(first["clusters"][0]["cluster"], "h100x8");
  EXPECT_EQ(document["rounds"][0]["schedules"][1]["legal"], false);
  EXPECT_THAT(to_table(arena), HasSubstr("zb-h1"));
  EXPECT_THAT(to_page(arena), HasSubstr("stp needs at least 3P-1"));
}

}  // namespace
}  // namespace panpipe::study
