// What a mailbox reports of its waits to the failure detector, and what becomes of messages that nobody takes.
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "exec/engine/transport/mailbox.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;

// Keeps the calls; the run stands still as soon as `stands` is true.
struct Recording : FailureDetector {
  std::vector<std::string> heard;
  bool stands = false;
  void set_action(const std::string&) override {}
  void begin_wait(const std::string& what, bool for_another) override {
    heard.push_back(what + (for_another ? " of another rank" : " of the device"));
  }
  void end_wait(bool came) override { heard.emplace_back(came ? "came" : "given up"); }
  void progress() override {}
  std::string standstill(std::chrono::steady_clock::duration) override { return stands ? "nobody computes" : ""; }
};

TEST(Mailbox, ReportsForWhatItWaitsAndWhetherThatCame) {
  Recording detector;
  Mailbox mailbox;
  mailbox.watch_with(detector);
  int looks = 0;
  mailbox.poll([&] { return ++looks == 3; }, 20s, "the end of the step");
  mailbox.poll([] { return true; }, 20s, "what is there already");
  detector.stands = true;
  EXPECT_EQ(test::fault_of<PeerLost>([&] {
              mailbox.take({1, Channel::User, 5}, 20s, "1F2");
            }),
            "1F2: nothing arrived and nobody computes");
  EXPECT_NE(test::fault_of<PeerLost>([&] { mailbox.poll([] { return false; }, 20s, "the end of the step"); }), "");
  EXPECT_THAT(detector.heard, testing::ElementsAre("the end of the step of the device", "came", "1F2 of another rank", "given up",
                                                   "the end of the step of the device", "given up"));
}

struct Filling : Pending {
  bool& ended;
  explicit Filling(bool& end) : ended(end) {}
  ~Filling() override { ended = true; }
  bool done() override { return false; }
  void wait(Clock::duration, const std::string&) override {}
};

// Another keeps the mailbox, as operations do that were not awaited.
TEST(Mailbox, LetsGoOfWhatNobodyTook) {
  Mailbox mailbox;
  bool ended = false;
  const Mailbox::Key key{1, Channel::Device, 5};
  mailbox.put(key, {at::zeros({1}), {}, std::make_shared<Filling>(ended)});
  EXPECT_FALSE(ended);
  mailbox.clear();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(mailbox.has(key));
}

}  // namespace
}  // namespace panpipe::exec
