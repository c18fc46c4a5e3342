// The end of a run as the watch sees it: a rank that goes before all are through is lost, one that goes after is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "exec/engine/transport/ending.hpp"
#include "exec/engine/transport/line.hpp"
#include "exec/engine/transport/watch.hpp"
#include "tests/exec/transport_world.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;

// Rank 0's watch, and rank 1 as a bare connection that says and closes what the test wants.
struct TwoRanks {
  std::promise<std::string> lost;
  std::promise<void> through;
  std::unique_ptr<Watch> watch;
  Line peer;
  TwoRanks() {
    int port = 0;
    const int listener = Watch::listen_anywhere(port);
    std::thread other([&] {
      peer = std::move(*Line::connect("127.0.0.1", port, 20s));
      peer.say({{"hello", 1}, {"token", "t"}});
    });
    WatchOptions options{0, 2, 20s, false, [this](const std::string& reason, bool) { lost.set_value(reason); }};
    watch = std::make_unique<Watch>(options, listener, "t");
    other.join();
    watch->begin_wait("the end");
  }
  void leave() {
    watch->leave([this] { through.set_value(); });
  }
};

TEST(Watch, ARankThatGoesBeforeItIsThroughIsLost) {
  TwoRanks ranks;
  ranks.leave();
  ranks.peer.say({{"rank", 1}, {"at", "1B2 of step 0"}});
  ranks.peer.close();
  EXPECT_EQ(ranks.lost.get_future().get(), "rank 1 is lost: its process ended; it was last seen at: 1B2 of step 0");
}

TEST(Watch, ARankThatGoesBeforeTheOthersAreThroughIsLost) {
  TwoRanks ranks;
  ranks.peer.say({{"through", true}});
  ranks.peer.close();
  EXPECT_EQ(ranks.lost.get_future().get(), "rank 1 is lost: its process ended; it was last seen at: the start");
}

TEST(Watch, ARankThatGoesWhenAllAreThroughIsNotLost) {
  TwoRanks ranks;
  ranks.leave();
  ranks.peer.say({{"through", true}});
  ranks.through.get_future().get();
  ranks.peer.close();          // without a goodbye: killed on its way out, which its launcher tells
  ranks.watch->farewell(20s);  // returns when it is gone
  EXPECT_EQ(ranks.lost.get_future().wait_for(100ms), std::future_status::timeout);
}

// Whoever goes first: its connections close while the others are still on their way out.
TEST(Leaving, RanksLeaveInAnyOrderOnceAllHaveSaidSo) {
  for (const std::string transport : {"gloo", "local"}) {
    for (const int last : {0, 1, 2}) {
      SCOPED_TRACE(transport + " " + std::to_string(last));
      std::atomic<int> reached{0};
      run_world(transport, 3, 20s, [&](Transport& ranks) {
        for (int turn = 0; turn < 3; ++turn) ranks.barrier(20s, "a step");
        if (ranks.rank() == last) std::this_thread::sleep_for(50ms);
        ++reached;
        leave(ranks, 20s, "the end of the run");
        EXPECT_EQ(reached.load(), 3);
        if (ranks.rank() == last) std::this_thread::sleep_for(50ms);
      });
    }
  }
}

TEST(Leaving, WrongInputOfOneRankEndsEveryWaitWithItsText) {
  for (const std::string transport : {"gloo", "local"}) {
    SCOPED_TRACE(transport);
    run_world(transport, 2, 20s, [&](Transport& ranks) {
      if (ranks.rank() == 1) {
        refuse(ranks, InputError("the file is empty"));
        std::this_thread::sleep_for(300ms);
        return;
      }
      try {
        ranks.barrier(20s, "the start of step 1");
        ADD_FAILURE() << "the wait ended";
      } catch (const InputError& error) {
        EXPECT_EQ(std::string(error.what()),
                  transport == "gloo" ? "rank 1: error: the file is empty" : "error: the file is empty");
      }
    });
  }
}

}  // namespace
}  // namespace panpipe::exec
