// weipipe against the order that the authors' code computes (weipipe.py, forward_backward_step, run with counters in place of its
// passes), and which orders count as sending weights round.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "schedule/schedule.hpp"
#include "schedule/travelling_weights.hpp"

namespace panpipe {
namespace {

// Passes of a rank, its stages counted from 0.
std::string as_published(const Schedule& schedule, int rank) {
  std::vector<std::string> cells;
  for (const Action& action : schedule.order[static_cast<std::size_t>(rank)])
    cells.push_back(fmt::format("{}{}m{}", name_of(action.kind), action.stage % schedule.ranks, action.microbatch));
  return fmt::format("{}", fmt::join(cells, " "));
}

TEST(WeiPipe, OrdersAreThoseOfTheAuthorsCode) {
  struct Published {
    int ranks, microbatches;
    const char* row;  // of every rank: they differ in the turn in which it begins
  };
  for (const Published& of : {Published{2, 2, "F0m0 F1m0 B1m0 B0m0"},
                              {2, 4, "F0m0 F1m0 B1m0 F0m1 B0m0 F1m1 B1m1 B0m1"},
                              {3, 6, "F0m0 F1m0 F2m0 B2m0 F0m1 B1m0 F1m1 B0m0 F2m1 B2m1 B1m1 B0m1"},
                              {4, 4, "F0m0 F1m0 F2m0 F3m0 B3m0 B2m0 B1m0 B0m0"}}) {
    const Schedule schedule = make_schedule("weipipe", of.ranks, of.microbatches);
    for (int rank = 0; rank < of.ranks; ++rank) EXPECT_EQ(as_published(schedule, rank), of.row) << of.ranks << " " << rank;
    EXPECT_TRUE(weights_travel(schedule));
  }
}

TEST(WeiPipe, NeedsSeveralRanksAndAsManyMicrobatchesForEach) {
  EXPECT_THROW(make_schedule("weipipe", 1, 4), InputError);
  EXPECT_THROW(make_schedule("weipipe", 4, 6), InputError);
  EXPECT_THROW(make_schedule("weipipe", 100000, 100000), InputError);
}

TEST(WeiPipe, NoOtherFamilyIsTakenForOne) {
  for (const ScheduleFamily& family : schedule_families())
    for (const int ranks : {2, 4}) {
      if (family.name == "weipipe" || family.searched()) continue;
      try {
        EXPECT_FALSE(weights_travel(make_schedule(family.name, ranks, 4 * ranks))) << family.name;
      } catch (const InputError&) {  // it does not exist at this size
      }
    }
}

}  // namespace
}  // namespace panpipe
