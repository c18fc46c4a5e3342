// Orders of families that are no entry of tests/reference, their text, and members that do not exist.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using test::rows_of;
using Rows = std::vector<std::string>;

// The other published orders are those of reference_test.cpp.
TEST(Families, SlimPipeAsItsAuthorsRunIt) {  // build_slimpipe_schedule(p=2, v=2) of the authors, microbatches of 4 slices
  EXPECT_EQ(rows_of(make_schedule("slimpipe", 2, 2, {{"sequence_splits", "4"}})),
            (Rows{"0F0.0 0F0.1 2F0.0 2F0.1 0F0.2 0F0.3 2F0.2 2F0.3 0F1.0 0F1.1 2B0.3 2F1.0 2B0.2 2F1.1 0B0.3 0F1.2 0B0.2 0F1.3 "
                  "2B0.1 2F1.2 2B0.0 2F1.3 0B0.1 0B0.0 2B1.3 2B1.2 0B1.3 0B1.2 2B1.1 2B1.0 0B1.1 0B1.0",
                  "1F0.0 1F0.1 3F0.0 3F0.1 1F0.2 1F0.3 3F0.2 3F0.3 3B0.3 1F1.0 3B0.2 1F1.1 1B0.3 3F1.0 1B0.2 3F1.1 3B0.1 1F1.2 "
                  "3B0.0 1F1.3 1B0.1 3F1.2 1B0.0 3F1.3 3B1.3 3B1.2 1B1.3 1B1.2 3B1.1 3B1.0 1B1.1 1B1.0"}));
}

// One number stands for min(P-1-r, prefetch) on rank r: 2 on four ranks is 2, 2, 1, 0.
TEST(Families, PfeifesPrefetchMayBeGivenPerRank) {
  EXPECT_EQ(make_schedule("pfeife", 4, 8, {{"prefetch", "2,2,1,0"}}).order,
            make_schedule("pfeife", 4, 8, {{"prefetch", "2"}}).order);
  const Schedule uneven = make_schedule("pfeife", 4, 8, {{"prefetch", "3,0,0,0"}});
  EXPECT_TRUE(check_schedule(uneven).empty());
  // Rank 0 of four runs 4 + 3 forwards before its first backward.
  EXPECT_EQ(uneven.order[0][6].kind, ActionKind::F);
  EXPECT_EQ(uneven.order[0][7].kind, ActionKind::B);
  // Rank 1 wants six forwards before a backward, but rank 0 waits for that backward after four: made, and not legal.
  EXPECT_FALSE(check_schedule(make_schedule("pfeife", 4, 8, {{"prefetch", "0,3,0,0"}})).empty());
}

// --- what families have in common ---

TEST(Families, PfeifeContains1f1bAndMegatronsInterleaved) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m < 20; ++m)
      EXPECT_EQ(make_schedule("pfeife", p, m).order, make_schedule("1f1b", p, m).order) << p << " " << m;
  // Members with Bl = D, pf = D-1; not for a single turn, where Megatron warms up with everything.
  for (int p : {2, 3, 4, 8})
    for (int v : {2, 3, 4})
      for (int turns : {2, 3, 4})
        EXPECT_EQ(
            make_schedule(
                "pfeife", p, turns * p,
                {{"stages_per_rank", std::to_string(v)}, {"loop_batch", std::to_string(p)}, {"prefetch", std::to_string(p - 1)}})
                .order,
            make_schedule("interleaved-1f1b", p, turns * p, {{"stages_per_rank", std::to_string(v)}}).order)
            << p << " " << v << " " << turns;
}

TEST(Families, TextComesBackAtEverySize) {
  for (const ScheduleFamily& family : schedule_families())
    for (int p : {1, 2, 3, 5})
      for (int m : {1, 2, 5, 8, 10}) {
        SCOPED_TRACE(fmt::format("{} p={} m={}", family.name, p, m));
        if (family.searched() && (p != 2 || m != 5)) continue;  // searching takes far longer than reading
        Schedule schedule;
        try {
          schedule = make_schedule(family.name, p, m);
        } catch (const InputError&) {
          continue;  // sizes that do not exist: family_properties_test.cpp states which
        }
        const Schedule again = read_schedule_csv(to_csv(schedule, false), std::string(family.name));
        EXPECT_EQ(again.order, schedule.order);
        EXPECT_EQ(again.microbatches, m);
        EXPECT_EQ(again.splits, schedule.splits);
        EXPECT_EQ(again.stage_to_rank, schedule.stage_to_rank);
        EXPECT_EQ(again.chains, schedule.chains);
      }
}

// --- members that do not exist, and their messages ---

std::string refusal(const char* family, int ranks, int microbatches, const ScheduleOptions& options = {}) {
  return test::fault_of([&] { make_schedule(family, ranks, microbatches, options); });
}

TEST(Families, TurnsShorterThanThePipelineAreMadeAsAskedAndExplained) {
  const Schedule schedule = make_schedule("interleaved-1f1b", 4, 8, {{"group", "2"}});
  const std::vector<ScheduleProblem> problems = check_schedule(schedule);
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(
      problems[0].message,
      "the order cannot finish: rank 0 waits at 4F3 for 3F3, cell 8 of rank 3; rank 3 waits at 3B0 for 4B0, cell 9 of rank 0: a "
      "cycle");
  EXPECT_EQ(schedule.notes,
            std::vector<std::string>{"turns of at least 4 microbatches, the last one too, always finish (option group)"});
}

TEST(Families, RefusalsReportWhy) {
  EXPECT_EQ(
      refusal("interleaved-1f1b", 4, 11),
      "error: interleaved-1f1b cuts 11 microbatches on 4 ranks into 2 turns, which leaves 1 over; use 10 or 12 microbatches, or "
      "state the length of a turn (option group=4)");
  EXPECT_EQ(refusal("1f2b", 4, 8), "error: unknown schedule '1f2b', did you mean '1f1b'?");
  EXPECT_EQ(refusal("pfeife", 4, 8, {{"prefech", "2"}}),
            "error: unknown option 'prefech' of schedule pfeife, did you mean 'prefetch'?");
  EXPECT_EQ(refusal("gpipe", 4, 8, {{"group", "2"}}),
            "error: unknown option 'group' of schedule gpipe; there are recompute, offload, offload_waiting, offload_stagger, "
            "post_validation, vocabulary, vocabulary_barriers");
  EXPECT_EQ(refusal("pfeife", 4, 8, {{"prefetch", "two"}}),
            "error: option 'prefetch' of a schedule must be a whole number, not 'two'");
  EXPECT_EQ(refusal("pfeife", 4, 8, {{"prefetch", "2,1,0"}}),
            "error: option 'prefetch' of schedule pfeife lists 3 ranks, but there are 4");
  EXPECT_EQ(refusal("pfeife", 4, 8, {{"loop_batch", "0"}}), "error: option 'loop_batch' of a schedule must be at least 1, not 0");
  EXPECT_EQ(refusal("interleaved-1f1b", 4, 8, {{"combined", "yes"}}),
            "error: option 'combined' of a schedule must be true or false, not 'yes'");
  EXPECT_EQ(refusal("gpipe", 0, 8), "error: ranks must be 1 to 100000, not 0");
  EXPECT_EQ(refusal("gpipe", 4, -1), "error: microbatches must be 1 to 1000000, not -1");
  EXPECT_EQ(refusal("gpipe", 100'000, 1'000'000),
            "error: 100000 ranks with 1 stage each and 1000000 microbatches make up to 300000 million actions; at most 6 million "
            "are taken, what 8 GB "
            "of memory hold");
}

TEST(Families, InterleavedTurnsThatMegatronAllowsAreLegal) {
  // Megatron asks for turns no shorter than the pipeline, the last one too. Of the others some wait for each other, with a note.
  for (int p = 1; p <= 6; ++p)
    for (int v = 1; v <= 3; ++v)
      for (int group = 1; group <= 2 * p + 1; ++group)
        for (int m = 1; m <= 4 * p; ++m) {
          const bool allowed = m <= group || (group >= p && (m % group == 0 || m % group >= p));
          const Schedule schedule =
              make_schedule("interleaved-1f1b", p, m, {{"stages_per_rank", std::to_string(v)}, {"group", std::to_string(group)}});
          const bool legal = check_schedule(schedule).empty();
          EXPECT_TRUE(legal || !allowed) << p << " " << v << " " << group << " " << m;
          EXPECT_EQ(legal, schedule.notes.empty()) << p << " " << v << " " << group << " " << m;
        }
  const auto legal = [](int m, const char* v) {
    return check_schedule(make_schedule("interleaved-1f1b", 4, m, {{"group", "4"}, {"stages_per_rank", v}})).empty();
  };
  EXPECT_TRUE(legal(10, "2"));  // a last turn of 2 on 4 ranks finishes with v = 2
  EXPECT_FALSE(legal(9, "3"));
}

}  // namespace
}  // namespace panpipe
