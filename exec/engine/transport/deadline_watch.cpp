#include "exec/engine/transport/deadline_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/engine/transport/json_line.hpp"
#include "exec/engine/transport/rank_meeting.hpp"
#include "exec/engine/transport/watch_thread.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;

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
