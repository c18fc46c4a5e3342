#include "exec/engine/transport/deadline_watch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "exec/engine/transport/json_line.hpp"
#include "exec/engine/transport/own_report.hpp"
#include "exec/engine/transport/rank_meeting.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Steady = std::chrono::steady_clock;

// A loss names who is lost; it comes a little before the waits of the others, who only know what they wait for, give up.
constexpr double kLossShare = 0.85;

// The reason of an end that a rank asked for; for wrong input it is the text for the user.
std::string ended_by(int rank, const std::string& why, bool input) {
  return input ? why : fmt::format("rank {} ended the run: {}", rank, why);
}

// The thread that reports its rank and hears the others.
class WatchThread : public Watch {
 public:
  explicit WatchThread(WatchOptions given)
      : options_(std::move(given)), interval_(std::clamp<Steady::duration>(options_.deadline / 30, 20ms, 500ms)) {}

  void set_action(const std::string& action) override { own_.note(action); }
  void begin_wait(const std::string& what) override { own_.note(what, true); }
  void end_wait() override { own_.note(std::nullopt, false); }
  void progress() override { own_.note(std::nullopt); }
  void device(const std::string& waits_for, std::vector<Standing> operations) override {
    own_.device(waits_for, std::move(operations));
  }

  Steady::duration world_quiet() const override {
    const std::lock_guard hold(lock_);
    return std::min(own_.now().quiet, Steady::now() - world_progressed_);
  }
  std::string standstill(Steady::duration deadline) override {
    if (world_quiet() <= deadline) return "";
    const std::lock_guard hold(lock_);
    return fmt::format("no rank made progress for {:.3g} s{}{}", in_seconds(deadline), table_.empty() ? "" : "; ", table_);
  }

  void abort(const std::string& reason) noexcept override { end(reason, false); }
  void refuse(const std::string& text) noexcept override { end(text, true); }
  void leave(std::function<void()> all_through) override {
    {
      const std::lock_guard hold(lock_);
      all_through_ = std::move(all_through);
    }
    send_to_first({{"through", true}});
  }

 protected:
  void start() {
    thread_ = std::thread([this] { loop(); });
  }
  // Before what the thread uses is gone.
  void stop() {
    leaving_ = true;
    if (thread_.joinable()) thread_.join();
    send_all({{"bye", true}});
  }

  virtual bool heard(int rank) const = 0;     // is its connection still of interest?
  virtual void hear() = 0;                    // what has come
  virtual void report() = 0;                  // at every interval
  virtual void send_to_first(const json&) {}  // on any thread
  virtual void spread(const json&) {}         // from rank 0 to the others

  void send(int rank, const json& document) {
    const std::lock_guard hold(sending_);
    lines_.at(rank).send(document);
  }
  void send_all(const json& document) {
    for (const auto& [rank, line] : lines_) send(rank, document);
  }
  Steady::duration loss_timeout() const { return std::chrono::duration_cast<Steady::duration>(options_.deadline * kLossShare); }

  // The run is over. Told to everybody once.
  void declare(const std::string& why, bool input = false) {
    {
      const std::lock_guard hold(lock_);
      if (over_since_ || all_are_through_) return;
      over_since_ = Steady::now();
      reason_ = why;
    }
    spread({{"lost", why}, {"input", input}});
    if (options_.lost) options_.lost(why, input);
  }

  const WatchOptions options_;
  std::map<int, Line> lines_;  // rank 0: by rank; others: to rank 0
  OwnReport own_;
  mutable std::mutex lock_;  // of what follows
  Steady::time_point world_progressed_ = Steady::now();
  std::string table_;                             // what the others do, sent by rank 0 when it is quiet
  std::optional<Steady::time_point> over_since_;  // with a loss
  std::string reason_;                            // of it
  std::function<void()> all_through_;             // this rank needs the others no more
  bool all_are_through_ = false;

 private:
  // On the thread of the caller that ends it.
  void end(const std::string& why, bool input) noexcept {
    try {
      send_to_first({{"abort", why}, {"input", input}});
      declare(ended_by(options_.rank, why, input), input);
    } catch (...) {  // the others notice the closed connection
    }
  }

  void end_stuck_process(const std::string& reason) const {
    std::fputs(fmt::format("panpipe: rank {}: {}: {}\n", options_.rank, own_.at(), reason).c_str(), stderr);
    std::fputs("panpipe-exec: this rank did not end by itself after the loss: ended by its watch\n", stderr);
    _exit(1);
  }

  void loop() {
    auto next = Steady::now();
    std::string reported;  // what this rank did when it last looked
    while (!leaving_) {
      std::vector<pollfd> sockets;
      for (auto& [rank, line] : lines_)
        if (heard(rank)) sockets.push_back({line.socket(), POLLIN, 0});
      const auto pause = std::clamp<std::int64_t>(in_milliseconds(next - Steady::now()), 1, 20);
      poll(sockets.data(), sockets.size(), static_cast<int>(pause));
      hear();
      // A rank reports its action when it changes, so that the last report of one that dies is fresh.
      const std::string at = own_.at();
      const bool news = options_.rank != 0 && at != reported, due = Steady::now() >= next;
      reported = at;
      if (due) {
        next = Steady::now() + interval_;
        own_.sample();
      }
      std::unique_lock hold(lock_);
      const auto since = over_since_;
      const bool quiet = since || all_are_through_;
      const std::string reason = reason_;
      hold.unlock();
      if (since && options_.kill_when_stuck && Steady::now() - *since > options_.deadline) end_stuck_process(reason);
      if ((due || news) && !quiet) report();
    }
  }

  const Steady::duration interval_;
  std::mutex sending_;  // abort() speaks on the caller's thread
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

// Hears all others, and judges.
class WatchOfFirstRank : public WatchThread {
 public:
  WatchOfFirstRank(WatchOptions options, const Handle& listener, const std::string& token) : WatchThread(std::move(options)) {
    lines_ = accept_ranks(listener, options_.size, token, options_.deadline);
    for (const auto& [rank, line] : lines_) seen_[rank] = RankState{};
    start();
  }
  ~WatchOfFirstRank() override { stop(); }

  void farewell(Steady::duration timeout) override {
    std::unique_lock hold(lock_);
    changed_.wait_for(hold, timeout, [this] { return all_left_; });
  }

 private:
  bool heard(int rank) const override { return !seen_.at(rank).left; }

  void hear() override {
    for (auto& [rank, line] : lines_) {
      RankState& one = seen_[rank];
      if (one.left) continue;
      bool ended = false;
      for (const json& document : line.receive(ended)) {
        one.received = Steady::now();
        if (document.contains("bye")) one.left = true;
        if (document.contains("through")) one.through = true;
        if (document.contains("abort")) {
          const bool input = document.value("input", false);
          declare(ended_by(rank, document.value("abort", ""), input), input);
        }
        if (document.contains("at")) take_report(document, one);
      }
      if (!ended || one.left) continue;
      one.left = true;
      declare(fmt::format("rank {} is lost: its process ended; it was last seen at: {}", rank, one.at));
    }
    settle();
  }

  // Does nobody need anybody any more? And has everybody gone?
  void settle() {
    const auto all = [this](auto&& is) { return std::all_of(seen_.begin(), seen_.end(), is); };
    std::function<void()> report_self;
    {
      const std::lock_guard hold(lock_);
      if (all_are_through_ && !all_left_ && all([](const auto& one) { return one.second.left; })) {
        all_left_ = true;
        changed_.notify_all();
      }
      if (over_since_ || all_are_through_ || !all_through_) return;
      if (!all([](const auto& one) { return one.second.through || one.second.left; })) return;
      all_are_through_ = true;
      report_self = all_through_;
    }
    send_all({{"leave", true}});
    report_self();
  }

  // Judges, and reports the ranks to each other once it is quiet.
  void report() override {
    const auto now = Steady::now();
    std::map<int, RankState> all = seen_;
    all[0] = own_.now();
    const Verdict verdict = judge(all, now, loss_timeout());
    if (!verdict.loss.empty()) return declare(verdict.loss);
    {
      const std::lock_guard hold(lock_);
      world_progressed_ = now - verdict.quiet;
      table_ = verdict.table;
    }
    json news{{"quiet", in_milliseconds(verdict.quiet)}};
    if (verdict.quiet > options_.deadline / 2) news["table"] = verdict.table;
    for (const auto& [rank, line] : lines_)
      if (heard(rank)) send(rank, news);
  }

  void spread(const json& document) override { send_all(document); }

  std::map<int, RankState> seen_;  // by rank, but itself
  bool all_left_ = false;          // under the lock
  std::condition_variable changed_;
};

// Reports itself to rank 0, and hears it.
class WatchOfOtherRank : public WatchThread {
 public:
  WatchOfOtherRank(WatchOptions options, const std::string& host, int port, const std::string& token)
      : WatchThread(std::move(options)) {
    lines_[0] = connect_to_first_rank(options_.rank, host, port, token, options_.deadline);
    start();
  }
  ~WatchOfOtherRank() override { stop(); }

  void farewell(Steady::duration) override { send(0, {{"bye", true}}); }

 private:
  bool heard(int) const override { return !first_left_; }

  void hear() override {
    bool ended = false, leave_now = false, input = false;
    std::string loss;
    for (const json& document : lines_.at(0).receive(ended)) {
      const std::lock_guard hold(lock_);
      heard_at_ = Steady::now();
      if (document.contains("bye")) first_left_ = true;
      if (document.contains("quiet")) world_progressed_ = heard_at_ - std::chrono::milliseconds(document.value("quiet", 0));
      if (document.contains("table")) table_ = document.value("table", "");
      if (document.contains("lost")) {
        loss = document.value("lost", "");
        input = document.value("input", false);
      }
      if (document.contains("leave") && !over_since_) all_are_through_ = leave_now = true;
    }
    if (leave_now) all_through_();
    if (!loss.empty()) return declare(loss, input);
    if (first_left_) return;
    // Without effect once all are through.
    if (ended) declare("rank 0 is lost: its process ended");
    if (Steady::now() - heard_at_ > loss_timeout())
      declare(fmt::format("rank 0 is lost: nothing heard from it for {:.2g} s (stopped, or its host cannot be reached)",
                          in_seconds(loss_timeout())));
    first_left_ |= ended;
  }

  void report() override {
    if (!first_left_) send(0, report_of(options_.rank, own_.now()));
  }

  void send_to_first(const json& document) override { send(0, document); }

  bool first_left_ = false;
  Steady::time_point heard_at_ = Steady::now();
};

}  // namespace

std::unique_ptr<Watch> watch_as_first_rank(WatchOptions options, const Handle& listener, const std::string& token) {
  return std::make_unique<WatchOfFirstRank>(std::move(options), listener, token);
}

std::unique_ptr<Watch> watch_as_other_rank(WatchOptions options, const std::string& host, int port, const std::string& token) {
  return std::make_unique<WatchOfOtherRank>(std::move(options), host, port, token);
}

}  // namespace panpipe::exec
