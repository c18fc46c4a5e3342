// Properties of every member of every hand-made family, for all P to 16 and M to 48 that it admits: legal, complete, the
// activations and the bubble that it promises.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

constexpr int kMaxRanks = 16, kMaxMicrobatches = 48;

struct Size {
  int p, m, v;  // v: stages on each rank (slices of a sequence for seq-1f1b)
  int turn() const { return m / std::max(1, m / p); }
};

// One row for each family, or for each of its members that promises something else.
struct Promise {
  std::string family;
  ScheduleOptions options;
  int v;
  int passes;  // actions for each stage and microbatch: 2 (F, B), 3 (F, I, W), or 0 where it depends on the microbatch
  std::function<bool(const Size&)> exists;
  std::function<int(const Size&, int rank)> activations;  // exactly, or at most where `at_most`
  bool at_most = false;
};

bool always(const Size&) { return true; }
bool turns_fit(const Size& s) { return s.m % std::max(1, s.m / s.p) == 0; }

std::vector<Promise> promises() {
  std::vector<Promise> all;
  using Exists = bool (*)(const Size&);
  using Activations = int (*)(const Size&, int rank);
  const auto exactly = [&](const char* family, const ScheduleOptions& options, int v, int passes, Exists exists,
                           Activations activations) {
    all.push_back({family, options, v, passes, exists, activations});
  };
  const auto at_most = [&](const char* family, const ScheduleOptions& options, int v, int passes, Exists exists,
                           Activations activations) {
    all.push_back({family, options, v, passes, exists, activations, true});
  };
  const Exists even = [](const Size& s) { return s.p % 2 == 0 && s.m % 2 == 0; };
  const Activations all_of_them = [](const Size& s, int) { return s.m * s.v; };
  // Rank r forwards P-1-r ahead, and one more before its first backward.
  const Activations one_ahead = [](const Size& s, int r) { return std::min(s.m, s.p - r); };
  const Activations turns = [](const Size& s, int r) {
    return std::min(s.m * s.v, (s.v - 1) * s.turn() + 2 * (s.p - 1 - r) + 1);
  };
  const Activations zero_bubble_turns = [](const Size& s, int) { return std::min(s.m * s.v, (s.v - 1) * s.turn() + s.p); };
  const Activations slices = [](const Size& s, int r) { return std::min(s.m * s.v, s.p - r + s.v - 1); };
  const Activations waves = [](const Size& s, int r) { return std::min(s.m * s.v, (s.v - 1) * s.p + r + 1); };
  exactly("gpipe", {}, 1, 2, always, all_of_them);
  exactly("1f1b", {}, 1, 2, always, one_ahead);
  exactly(
      "pipedream-2bw", {}, 1, 2, [](const Size& s) { return s.m + 1 >= s.p; }, [](const Size& s, int r) { return s.p - r; });
  exactly("kfkb", {{"group", "3"}}, 1, 2, always, [](const Size& s, int r) { return std::min(s.m, 3 * (s.p - r)); });
  for (int v = 1; v <= 4; ++v) {
    exactly("interleaved-1f1b", {{"stages_per_rank", std::to_string(v)}}, v, 2, turns_fit, turns);
    exactly("looped-bfs", {{"stages_per_rank", std::to_string(v)}}, v, 2, always, all_of_them);
  }
  // A group takes its forward's activation before it frees its backward's.
  exactly("interleaved-1f1b", {{"combined", "true"}}, 2, 2, turns_fit,
          [](const Size& s, int r) { return std::min(s.m * s.v, (s.v - 1) * s.turn() + 2 * (s.p - 1 - r) + 2); });
  exactly("zb-h1", {}, 1, 3, always, [](const Size& s, int) { return std::min(s.m, s.p); });
  exactly("zb-h2", {}, 1, 3, always, [](const Size& s, int) { return std::min(s.m, 2 * s.p - 1); });
  exactly("interleaved-zero-bubble", {}, 2, 3, turns_fit, zero_bubble_turns);
  exactly("interleaved-zero-bubble", {{"stages_per_rank", "3"}}, 3, 3, turns_fit, zero_bubble_turns);
  at_most("zb-v", {}, 2, 3, always, [](const Size& s, int) { return std::min(2 * s.m, 2 * s.p); });
  at_most("1f1b-v", {}, 2, 2, always, [](const Size& s, int) { return std::min(2 * s.m, 2 * (2 * s.p / 3 + 1)); });
  at_most(
      "dualpipe-v", {}, 2, 0, [](const Size& s) { return s.m >= 2 * s.p; }, [](const Size& s, int) { return 2 * s.p + 1; });
  at_most(
      "dualpipe", {}, 2, 0, [](const Size& s) { return s.p % 2 == 0 && s.m % 2 == 0 && s.m >= 2 * s.p; },
      [](const Size& s, int) { return s.p + 1; });
  // 3P, and the activations whose W waits: more towards the end of the V. A group takes before it frees.
  at_most(
      "stp", {}, 2, 0, [](const Size& s) { return s.m >= 3 * s.p - 1; },
      [](const Size& s, int r) { return 3 * s.p + std::max(1, r); });
  exactly("seq-1f1b", {}, 2, 2, always, slices);
  exactly("seq-1f1b", {{"sequence_splits", "4"}}, 4, 2, always, slices);
  // All slices of a microbatch on every stage of the rank, and 2(P-1-r) more: here P slices on v = 2 stages, and 32 on 3.
  exactly("slimpipe", {{"stages_per_rank", "1"}, {"sequence_splits", "16"}}, 16, 2, always,
          [](const Size& s, int r) { return std::min(s.m * s.v, s.v + 2 * (s.p - 1 - r)); });
  at_most("group-interleaved", {}, 2, 3, always,
          [](const Size& s, int r) { return std::min(s.m * s.v, s.p * (s.v - 1) + s.p - r); });
  at_most("gis-h", {}, 2, 3, always,
          [](const Size& s, int r) { return std::min(s.m * s.v, (s.p + 1) / 2 * (s.v - 1) + s.p - r); });
  at_most("chimera", {}, 2, 2, even, [](const Size& s, int r) { return std::min(s.m, s.p / 2 + 1 + std::min(r, s.p - 1 - r)); });
  at_most("hanayo", {}, 4, 2, always, waves);
  at_most("hanayo", {{"stages_per_rank", "2"}}, 2, 2, always, waves);
  exactly("pfeife", {}, 1, 2, always, one_ahead);
  exactly("roundpipe", {}, 2, 0, always, [](const Size&, int) { return 1; });  // the others wait in the host's memory
  // All stages of a microbatch; a backward frees one before the next microbatch's forward takes one.
  exactly(
      "weipipe", {}, 1, 0, [](const Size& s) { return s.p > 1 && s.m % s.p == 0; }, [](const Size& s, int) { return s.p; });
  exactly("pfeife", {{"execution", "breadth-first"}, {"stages_per_rank", "2"}}, 2, 2, always, all_of_them);
  return all;
}

std::optional<Schedule> made(const Promise& promise, const Size& size) {
  try {
    return make_schedule(promise.family, size.p, size.m, promise.options);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

template <class Use>
void for_every_size(const Promise& promise, Use&& use) {
  for (int p = 1; p <= kMaxRanks; ++p)
    for (int m = 1; m <= kMaxMicrobatches; ++m) {
      SCOPED_TRACE(fmt::format("{} p={} m={} v={}", promise.family, p, m, promise.v));
      use(Size{p, m, promise.v});
      if (testing::Test::HasFailure()) return;  // one size is enough to read
    }
}

std::size_t passes_of(const Schedule& schedule) {
  std::size_t passes = 0;
  for (const auto& row : schedule.order)
    passes += static_cast<std::size_t>(std::count_if(row.begin(), row.end(), [](auto& a) { return a.is_compute(); }));
  return passes;
}

// The check finds every pass that is missing, repeated or out of order, and orders that cannot finish.
void expect_legal_and_complete(const Promise& promise, const Size& size, const Schedule& schedule) {
  ASSERT_EQ(test::message_of(check_schedule(schedule)), "legal");
  const int slices = size.p * size.v * size.m / (schedule.chains.size() == 2 ? 2 : 1);
  if (promise.passes != 0) {
    ASSERT_EQ(passes_of(schedule), static_cast<std::size_t>(promise.passes * slices));
  }
}

void expect_activations(const Promise& promise, const Size& size, const Schedule& schedule) {
  const std::vector<int> peak = evaluate(schedule, {}).peak_activations;
  for (int rank = 0; rank < size.p; ++rank) {
    const int held = peak[rank], promised = promise.activations(size, rank);
    if (promise.at_most) {
      ASSERT_LE(held, promised) << "rank " << rank;
    } else {
      ASSERT_EQ(held, promised) << "rank " << rank;
    }
  }
}

TEST(FamilyProperties, ExactlyTheSizesThatExistAreMadeLegalAndWithinTheirActivations) {
  for (const Promise& promise : promises())
    for_every_size(promise, [&](const Size& size) {
      const auto schedule = made(promise, size);
      ASSERT_EQ(schedule.has_value(), promise.exists(size));
      if (!schedule) return;
      expect_legal_and_complete(promise, size, *schedule);
      expect_activations(promise, size, *schedule);
    });
}

TEST(FamilyProperties, EveryFixedFamilyHasItsPromises) {
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.searched()) continue;
    const auto all = promises();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Promise& p) { return p.family == family.name; })) << family.name;
  }
}

// --- bubbles: idle time of a rank, transfers free ---

const PassCosts kEven{1, 1, 1, std::nullopt, 0}, kSkewed{10, 12, 8, std::nullopt, 0};
const PassCosts kForwardAsLongAsBackward{1, 1, 0, std::nullopt, 0};

double idle_in_step(const Schedule& schedule, const PassCosts& costs) {
  const ScheduleEvaluation result = evaluate(schedule, costs);
  return result.makespan - result.busy[0];
}
double idle_in_span(const Schedule& schedule, const PassCosts& costs) {
  const ScheduleEvaluation result = evaluate(schedule, costs);
  return result.span - *std::max_element(result.busy.begin(), result.busy.end());
}

// Of a rank in the step, or between its first and its last pass: `each` (P-1) + `more`, in sizes for which the closed form holds.
struct Bubble {
  std::string family;
  ScheduleOptions options;
  bool (*applies)(int p, int m);
  const PassCosts& costs;
  int each, more = 0;
  double (*idle)(const Schedule&, const PassCosts&) = idle_in_step;
};

std::vector<Bubble> bubbles() {
  const auto always = [](int, int) { return true; };
  const auto p_or_more = [](int p, int m) { return m >= p; };
  const auto twice_p = [](int p, int m) { return m >= 2 * p; };
  const auto whole_turns = [](int p, int m) { return m % p == 0; };
  std::vector<Bubble> all = {
      // The first forward reaches the last rank after (P-1) F, and its last backward needs (P-1) B back to rank 0, while nothing
      // else can fill these: (P-1) (F + I + W) = 30 (P-1). Fewer microbatches than ranks change nothing.
      {"gpipe", {}, always, kSkewed, 30},
      {"1f1b", {}, always, kSkewed, 30},
      // W leaves the way between the ranks and fills the end: (P-1) (F + I - W) = 14 (P-1), with W <= F and enough microbatches
      // (2P, as the paper asks).
      {"zb-h1", {}, twice_p, kSkewed, 14},
      {"zb-h1", {}, twice_p, kEven, 1},
      // In the span (P-1) (F + I - 2 W) at most: (P-1) (10 + 12 - 16), and nothing when F = I = W. In the step (P-1) F more,
      // until the last rank begins.
      {"zb-h2", {}, twice_p, kSkewed, 10},
      {"zb-h2", {}, twice_p, kEven, 1},
      {"zb-h2", {}, twice_p, kSkewed, 6, 0, idle_in_span},
      {"zb-h2", {}, twice_p, kEven, 0, 0, idle_in_span},
      // None inside the span when F = I = W, (P-1) F in the step; uneven passes cost more.
      {"zb-v", {}, twice_p, kSkewed, 12},
      {"zb-v", {}, twice_p, kEven, 1},
      {"zb-v", {}, twice_p, kSkewed, 8, 0, idle_in_span},
      {"zb-v", {}, twice_p, kEven, 0, 0, idle_in_span},
      // (P-1) (F&B + B - 3 W) with F&B = F + B, exact when F = I = W: (P-1) (3 + 2 - 3); DualPipe has P/2 for P.
      {"dualpipe-v", {}, twice_p, kEven, 2},
      {"dualpipe", {}, [](int p, int m) { return p % 2 == 0 && m % 2 == 0 && m >= 2 * p; }, kEven, 1, -1},
      // Groups as one unit, I >= F >= W: (P-1) (2F + 2I - 3W) = (P-1) (20 + 24 - 24); with F = I = W the paper's (P-1) (F + I -
      // W).
      {"stp", {}, [](int p, int m) { return m >= 3 * p - 1; }, kSkewed, 20},
      {"stp", {}, [](int p, int m) { return m >= 3 * p - 1; }, kEven, 1},
      // Full turns of P: (P-1) (F + I).
      {"group-interleaved", {}, whole_turns, kSkewed, 22},
      // In full units and with F = B: the way through the chain less what the other direction fills, P-2 for Chimera (its paper's
      // (D-2) / (2N + D-2)), and below 2P-2 for a wave, for any number of units and waves.
      {"chimera", {}, [](int p, int m) { return p % 2 == 0 && m % p == 0; }, kForwardAsLongAsBackward, 1, -1}};
  const auto each_of = [&](const char* option, std::initializer_list<const char*> values, const Bubble& row) {
    for (const char* value : values) {
      all.push_back(row);
      all.back().options[option] = value;
    }
  };
  // As 1f1b and gpipe, in stages a v-th as long: whole turns, or where every stage keeps the ranks busy until the next input.
  each_of("stages_per_rank", {"1", "2", "3", "4"}, {"interleaved-1f1b", {}, whole_turns, kSkewed, 30});
  each_of("stages_per_rank", {"1", "2", "3", "4"}, {"looped-bfs", {}, p_or_more, kSkewed, 30});
  // (P-1) (F + I - W) of a stage.
  each_of("stages_per_rank", {"2", "3"},
          {"interleaved-zero-bubble", {}, [](int p, int m) { return m >= p && m % (m / p) == 0; }, kSkewed, 14});
  // That of 1f1b in passes of a slice, for any number of microbatches.
  each_of("sequence_splits", {"1", "2", "4"}, {"seq-1f1b", {}, always, kSkewed, 30});
  each_of("stages_per_rank", {"1", "3"}, {"slimpipe", {{"sequence_splits", "16"}}, always, kSkewed, 30});
  each_of("group", {"1", "2", "5"}, {"kfkb", {}, always, kSkewed, 30});
  each_of("stages_per_rank", {"2", "4", "6"}, {"hanayo", {}, whole_turns, kForwardAsLongAsBackward, 2});
  return all;
}

template <class Applies, class Use>
void for_sizes(const std::string& family, const ScheduleOptions& options, Applies&& applies, Use&& use) {
  int tried = 0;
  for (int p = 1; p <= kMaxRanks; ++p)
    for (int m = 1; m <= kMaxMicrobatches; ++m) {
      if (!applies(p, m)) continue;
      SCOPED_TRACE(fmt::format("{} p={} m={}", family, p, m));
      use(make_schedule(family, p, m, options), p);
      if (testing::Test::HasFailure()) return;
      ++tried;
    }
  EXPECT_GT(tried, 20);
}

TEST(FamilyProperties, BubblesAreTheirClosedForms) {
  for (const Bubble& row : bubbles())
    for_sizes(row.family, row.options, row.applies,
              [&](const Schedule& schedule, int p) { EXPECT_EQ(row.idle(schedule, row.costs), row.each * (p - 1) + row.more); });
}

TEST(FamilyProperties, SlimPipeIsAsItsAuthorsCalculate) {
  // The calculator prints (P-1) / (n v M + P-1) of the step: 1.08 % for P = 8, n = 16, v = 5, M = 8, 7 / 647.
  const Schedule schedule = make_schedule("slimpipe", 8, 8, {{"sequence_splits", "16"}, {"stages_per_rank", "5"}});
  const ScheduleEvaluation evaluated = evaluate(schedule, {});
  EXPECT_NEAR(evaluated.bubble_step, 7.0 / 647, 1e-12);
  // n v + 2 (P-1) slices on a stage: (1 + 14 / 80) of a microbatch's activations on the rank's stages, a P-th of 1f1b's whole.
  EXPECT_EQ(evaluated.peak_activations.front(), 16 * 5 + 14);
}

TEST(FamilyProperties, HalfTurnsOfGroupInterleaved) {
  // Turns of g add (P-g) (v-1) when F = I = W: 2 (P-1) + P/2 for g = P/2, v = 2.
  for (int p = 2; p <= kMaxRanks; p += 2)
    for (int turns = 2; turns <= 6; ++turns) {
      const Schedule schedule = make_schedule("group-interleaved", p, turns * p / 2, {{"group", std::to_string(p / 2)}});
      EXPECT_EQ(idle_in_step(schedule, kEven), 2 * (p - 1) + p / 2) << p << " " << turns;
      EXPECT_EQ(evaluate(schedule, kEven).peak_activations[0], p / 2 + p) << p << " " << turns;
    }
}

TEST(FamilyProperties, BubbleOf1f1bV) {
  // Passes of 1 and 2 units: a microbatch takes 6 slots of every rank, and the way through the V leaves at most 5 idle for each
  // further rank (exactly so where P-1 is a multiple of three); 1f1b's is 6 in these units of half a stage.
  for_sizes(
      "1f1b-v", {}, [](int p, int m) { return m >= p; },
      [](const Schedule& schedule, int p) {
        EXPECT_LE(idle_in_step(schedule, kEven), 5 * (p - 1));
        if (p % 3 == 1) {
          EXPECT_EQ(idle_in_step(schedule, kEven), 5 * (p - 1));
        }
      });
}

// --- members that are other families ---

TEST(FamilyProperties, MembersThatAreOtherFamilies) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 20; ++m) {
      SCOPED_TRACE(fmt::format("p={} m={}", p, m));
      const auto order = [&](const char* family, const ScheduleOptions& options = {}) {
        return make_schedule(family, p, m, options).order;
      };
      EXPECT_EQ(order("kfkb", {{"group", "1"}}), order("1f1b"));
      EXPECT_EQ(order("kfkb", {{"group", std::to_string(m)}}), order("gpipe"));
      EXPECT_EQ(order("seq-1f1b", {{"sequence_splits", "1"}}), order("1f1b"));
      if (turns_fit({p, m, 1})) {
        EXPECT_EQ(order("interleaved-zero-bubble", {{"stages_per_rank", "1"}}), order("zb-h1"));
      }
      EXPECT_EQ(order("pfeife", {{"execution", "breadth-first"}}), order("gpipe"));
    }
}

// --- Pfeife's plainer executions ---

TEST(FamilyProperties, PfeifeBreadthFirstTakesMicrobatchesInTheirOrder) {
  EXPECT_EQ(test::rows_of(make_schedule("pfeife", 2, 2, {{"stages_per_rank", "2"}, {"execution", "breadth-first"}})),
            (std::vector<std::string>{"0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1", "1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1"}));
}

TEST(FamilyProperties, PfeifePipelessSendsBehindTheLastMicrobatch) {
  const Schedule schedule = make_schedule("pfeife", 2, 2, {{"execution", "pipeless"}});
  EXPECT_EQ(test::rows_of(schedule), (std::vector<std::string>{"0F0 0F1 0SEND_F0 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
                                                               "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1B1 1SEND_B0 1SEND_B1"}));
  EXPECT_EQ(test::message_of(check_schedule(schedule)), "legal");
  // No two stages on different ranks overlap: all passes one after the other, P M (F + B) = 2 * 2 * 3.
  EXPECT_EQ(evaluate(schedule, {}).makespan, 12);
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 9; ++m)
      EXPECT_EQ(evaluate(make_schedule("pfeife", p, m, {{"execution", "pipeless"}}), kSkewed).makespan, p * m * 30);
}

}  // namespace
}  // namespace panpipe
