// How many messages of a stage can lie at its neighbour, not taken yet, however slow that one is: between ranks nothing else
// bounds what a sender, which does not wait for its receiver, puts into the receiver's memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/schedule.hpp"

namespace panpipe {
namespace {

long count(const std::vector<Action>& order, std::size_t done, ActionKind kind) {
  return std::count_if(order.begin(), order.begin() + static_cast<long>(done),
                       [kind](const Action& action) { return action.kind == kind; });
}

// The receiver has done `done` of its actions and stands still; everybody else is as fast as can be. Then `from` goes on until it
// wants what only the receiver gives: its passes of the kind `wanted`, one for each of its own.
long ahead(const Schedule& schedule, int from, int to, ActionKind sent, ActionKind wanted) {
  const auto &sender = schedule.order[from], &receiver = schedule.order[to];
  long most = 0;
  for (std::size_t done = 0; done <= receiver.size(); ++done) {
    std::size_t gone = 0;
    while (gone < sender.size() && (sender[gone].kind != wanted || count(sender, gone, wanted) < count(receiver, done, wanted)))
      ++gone;
    most = std::max(most, count(sender, gone, sent) - count(receiver, done, sent));
  }
  return most;
}

TEST(SenderAhead, IsAsManyMicrobatchesAsTheScheduleKeeps) {
  for (const int ranks : {2, 4, 7})
    for (const int microbatches : {1, 3, 8, 20}) {
      const Schedule gpipe = make_schedule("gpipe", ranks, microbatches), early = make_schedule("1f1b", ranks, microbatches);
      for (int rank = 0; rank + 1 < ranks; ++rank) {
        SCOPED_TRACE(testing::Message() << rank << " of " << ranks << ", " << microbatches << " microbatches");
        // All forwards come before the first gradient is wanted; the next rank's backwards all after its last forward.
        EXPECT_EQ(ahead(gpipe, rank, rank + 1, ActionKind::F, ActionKind::B), microbatches);
        EXPECT_EQ(ahead(gpipe, rank + 1, rank, ActionKind::B, ActionKind::F), microbatches);
        // Rank r of P wants the first gradient after P - r forwards, and keeps no more activations than that.
        const long kept = std::min(ranks - rank, microbatches);
        EXPECT_EQ(ahead(early, rank, rank + 1, ActionKind::F, ActionKind::B), kept);
        EXPECT_EQ(ahead(early, rank + 1, rank, ActionKind::B, ActionKind::F), kept);
      }
    }
}

}  // namespace
}  // namespace panpipe
