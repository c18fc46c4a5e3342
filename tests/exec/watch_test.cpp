// The end of a run as the watch sees it: a rank that goes before all are through is lost, one that goes after is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "exec/engine/transport/deadline_watch.hpp"
#include "exec/engine/transport/json_line.hpp"
#include "exec/engine/transport/rank_meeting.hpp"
#include "tests/exec/transport_world.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;

// Rank 0's watch, and rank 1 as a bare connection that sends and closes what the test wants.
struct TwoRanks {
  std::promise<std::string> lost;
  std::promise<void> through;
  std::unique_ptr<Watch> watch;
  Line peer;
  // `before`: what comes to the port before rank 1 does.
  explicit TwoRanks(const std::function<void(int port)>& before = [](int) {}) {
    int port = 0;
    const Handle listener = listen_anywhere(port);
    std::thread other([&] {
      before(port);
      peer = std::move(*Line::connect("127.0.0.1", port, 20s));
      EXPECT_TRUE(introduce(peer, 1, "t", std::chrono::steady_clock::now() + 20s));
    });
    WatchOptions options{0, 2, 20s, false, [this](const std::string& reason, bool) { lost.set_value(reason); }};
    watch = watch_as_first_rank(options, listener, "t");
    other.join();
    watch->begin_wait("the end", true);
  }
  void leave() {
    watch->leave([this] { through.set_value(); });
  }
};

TEST(Watch, ARankThatGoesBeforeItIsThroughIsLost) {
  TwoRanks ranks;
  ranks.leave();
  ranks.peer.send({{"rank", 1}, {"at", "1B2 of step 0"}});
  ranks.peer.close();
  EXPECT_EQ(ranks.lost.get_future().get(), "rank 1 is lost: its process ended; it was last seen at: 1B2 of step 0");
}

TEST(Watch, ARankThatGoesBeforeTheOthersAreThroughIsLost) {
  TwoRanks ranks;
  ranks.peer.send({{"through", true}});
  ranks.peer.close();
  EXPECT_EQ(ranks.lost.get_future().get(), "rank 1 is lost: its process ended; it was last seen at: the start");
}

TEST(Watch, ARankThatGoesWhenAllAreThroughIsNotLost) {
  TwoRanks ranks;
  ranks.leave();
  ranks.peer.send({{"through", true}});
  ranks.through.get_future().get();
  ranks.peer.close();          // without a goodbye: killed on its way out, which its launcher reports
  ranks.watch->farewell(20s);  // returns when it is gone
  EXPECT_EQ(ranks.lost.get_future().wait_for(100ms), std::future_status::timeout);
}

// Sends bytes and goes; or stays, to send more.
struct AnyBytes {
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  explicit AnyBytes(int port, const std::string& bytes = "") {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    send(bytes);
  }
  AnyBytes(AnyBytes&& other) noexcept : socket(std::exchange(other.socket, -1)) {}
  ~AnyBytes() { close(socket); }
  void send(const std::string& bytes) const { ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
};

TEST(ForeignConnections, NoBytesEndOrBlockTheStart) {
  std::string binary;
  for (int i = 0; i < 4096; ++i) binary += static_cast<char>(i * 37);
  const std::vector<std::string> said = {
      "{\"hello\":\"x\"}\n",
      "{\"hello\":1}\n",
      "{\"hello\":1,\"nonce\":7,\"proof\":[1]}\n",
      "{\"hello\":1e99,\"proof\":null}\n",
      "{\"hello\":-5,\"nonce\":\"\",\"proof\":\"\"}\n",
      "{\"hello\":99999999999999999999}\n",
      "[1]\n",
      "\n\n\n",
      "GET / HTTP/1.1\r\n\r\n",
      std::string(100000, '['),
      std::string(3 << 20, 'x'),  // a line without an end
      binary,
  };
  for (const std::string& bytes : said) {
    SCOPED_TRACE(bytes.substr(0, 40));
    std::optional<AnyBytes> stays;
    TwoRanks ranks([&](int port) {
      { const AnyBytes goes(port, bytes); }
      stays.emplace(port, bytes);
    });
    ranks.leave();
    ranks.peer.send({{"through", true}});
    ranks.through.get_future().get();  // rank 1 is heard, and nobody else
  }
}

TEST(ForeignConnections, ManyAndSlowOnesDoNotKeepARankOut) {
  std::vector<AnyBytes> many;
  std::atomic<bool> over{false};
  std::thread drip;
  TwoRanks ranks([&](int port) {
    for (int i = 0; i < 300; ++i) many.emplace_back(port, i % 2 == 0 ? "{" : "");
    drip = std::thread([&over, slow = AnyBytes(port)] {
      for (; !over; std::this_thread::sleep_for(5ms)) slow.send(" ");
    });
  });
  over = true;
  drip.join();
  ranks.leave();
  ranks.peer.send({{"through", true}});
  ranks.through.get_future().get();
}

TEST(ForeignConnections, ARankOfAnotherRunIsNotTaken) {
  bool taken = true;
  TwoRanks ranks([&](int port) {
    Line other = std::move(*Line::connect("127.0.0.1", port, 20s));
    taken = introduce(other, 1, "u", std::chrono::steady_clock::now() + 20s);
  });
  EXPECT_FALSE(taken);
}

// Nobody reads for a while: rank 0 stopped by a debugger. Data that do not fit into the socket's buffers come later, whole and in
// order.
TEST(Line, WhatIsNotTakenAtOnceComesLater) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const int bytes = 4096;
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  Line sender(ends[0]), receiver(ends[1]);
  const std::string long_text(1000, 'x');
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(sender.send({{"number", i}, {"text", long_text}})) << i;  // 200 KiB
  std::vector<nlohmann::json> heard;
  bool ended = false;
  for (int i = 200; i < 400; ++i) {
    for (nlohmann::json& one : receiver.receive(ended)) heard.push_back(std::move(one));
    EXPECT_TRUE(sender.send({{"number", i}}));
  }
  for (nlohmann::json& one : receiver.receive(ended)) heard.push_back(std::move(one));
  EXPECT_FALSE(ended);
  ASSERT_EQ(heard.size(), 400u);
  for (int i = 0; i < 400; ++i) EXPECT_EQ(heard[i]["number"], i);
}

// A peer that never reads does not fill the memory.
TEST(Line, APeerThatTakesNothingIsGivenUp) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Line sender(ends[0]), silent(ends[1]);
  int said = 0;
  while (said < 10000 && sender.send({{"text", std::string(1000, 'x')}})) ++said;
  EXPECT_GT(said, 1000);
  EXPECT_LT(said, 3000) << "1 MiB, and what the system's buffers hold";
}

// A program that answers at rank 0's port must prove that it knows the token.
TEST(ForeignConnections, WhoCannotShowTheTokenIsNotRankZero) {
  int port = 0;
  const Handle listener = listen_at("127.0.0.1", port);
  std::atomic<bool> over{false};
  std::thread impostor([&] {
    std::vector<Line> lines;
    while (!over) {
      pollfd wait{listener.get(), POLLIN, 0};
      if (poll(&wait, 1, 10) != 1) continue;
      lines.emplace_back(accept(listener.get(), nullptr, nullptr));
      lines.back().send({{"challenge", "c"}});
      lines.back().send({{"welcome", "come in"}});
      lines.back().send({{"lost", "the end"}});
    }
  });
  EXPECT_EQ(test::fault_of<MachineError>([&] {
              watch_as_other_rank(WatchOptions{1, 2, 1s, false, {}}, "127.0.0.1", port, "t");
            }),
            "rank 1 reached 127.0.0.1 port " + std::to_string(port) +
                ", but what answers there did not show within 1 s that it is rank 0 of this run");
  over = true;
  impostor.join();
}

// An operation of two devices: {id, members, sentence, milliseconds}.
nlohmann::json in_operation(const std::string& id, int members, const std::string& sentence, int ms) {
  return {{"rank", 1}, {"waits", true}, {"at", "1F3"}, {"quiet", 0}, {"operations", {{id, members, sentence, ms}}}};
}

TEST(Watch, AnOperationThatAllAreInAndThatStandsStillIsNamed) {
  TwoRanks ranks;
  ranks.watch->device("a message from rank 1", {{"1>0#9", 2, "", 30s}});
  ranks.peer.send(in_operation("1>0#9", 2, "rank 1 is stuck: its message to rank 0 at 1B2 of step 3", 40000));
  EXPECT_EQ(ranks.lost.get_future().get(),
            "rank 1 is stuck: its message to rank 0 at 1B2 of step 3 has stood still between the GPUs for 30 s");
}

TEST(Watch, AnOperationThatNotAllAreInIsNoLoss) {
  TwoRanks ranks;
  ranks.watch->device("a message from rank 1", {{"1>0#9", 2, "", 30s}});
  ranks.peer.send(in_operation("1>0#8", 2, "rank 1 is stuck: its message to rank 0 at 1B2 of step 3", 40000));
  ranks.leave();
  ranks.peer.send({{"through", true}});
  ranks.through.get_future().get();
  EXPECT_EQ(ranks.lost.get_future().wait_for(1s), std::future_status::timeout);  // it looks twice a second
}

// A host that spins for a device that waits makes no progress, and is not stuck itself.
TEST(Watch, ProcessorTimeIsNoProgressWhileTheDeviceWaits) {
  for (const bool device_waits : {false, true}) {
    SCOPED_TRACE(device_waits);
    TwoRanks ranks;
    ranks.watch->end_wait(true);
    ranks.watch->device(device_waits ? "a message from rank 1" : "", {});
    // Until some is counted, or two seconds without.
    const auto begin = std::chrono::steady_clock::now();
    bool progress = false;
    std::chrono::steady_clock::duration quiet{}, before{};
    while (!progress && !(device_waits && quiet > 2s) && std::chrono::steady_clock::now() < begin + 60s) {
      ranks.peer.send({{"rank", 1}, {"waits", true}, {"quiet", 100000}, {"at", "1F3"}});
      for (const auto spin = std::chrono::steady_clock::now() + 100ms; std::chrono::steady_clock::now() < spin;) {
      }
      quiet = ranks.watch->world_quiet();
      progress = quiet + 300ms < before;  // it is sampled every 500 ms
      before = quiet;
    }
    EXPECT_EQ(progress, !device_waits);
  }
}

// In any order: the connections of the first close while the others are still on their way out.
TEST(Leaving, RanksLeaveInAnyOrderOnceAllHaveReportedIt) {
  for (const std::string transport : {"gloo", "local"}) {
    for (const int last : {0, 1, 2}) {
      SCOPED_TRACE(transport + " " + std::to_string(last));
      std::atomic<int> reached{0};
      run_world(transport, 3, 20s, [&](Transport& ranks) {
        for (int turn = 0; turn < 3; ++turn) ranks.barrier(20s, "a step");
        if (ranks.rank() == last) std::this_thread::sleep_for(50ms);
        ++reached;
        ranks.leave(20s, "the end of the run");
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
        ranks.refuse(InputError("the file is empty"));
        std::this_thread::sleep_for(300ms);
        return;
      }
      EXPECT_EQ(test::fault_of([&] { ranks.barrier(20s, "the start of step 1"); }),
                transport == "gloo" ? "rank 1: error: the file is empty" : "error: the file is empty");
    });
  }
}

}  // namespace
}  // namespace panpipe::exec
