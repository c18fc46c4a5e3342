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
#include "exec/engine/transport/rank_meeting.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Steady = std::chrono::steady_clock;

// A loss names who is lost; it comes a little before the waits of the others, who only know what they wait for, give up.
constexpr double kLossShare = 0.85;

}  // namespace

struct Watch::State {
  WatchOptions options;
  Steady::duration interval;

  std::mutex sending;  // abort() speaks on the caller's thread
  mutable std::mutex lock;
  RankState self;
  Steady::time_point progressed = Steady::now();
  Steady::time_point world_progressed = Steady::now();
  std::string table;          // what the others do, sent by rank 0 when it is quiet
  std::string reason;         // of the loss, once there is one
  std::string reported_loss;  // by rank 0, to be declared
  bool about_input = false;
  std::string device_waits;  // what for
  bool over = false;
  Steady::time_point over_since;
  bool all_are_through = false, all_left = false;
  std::function<void()> all_through;
  std::condition_variable changed;

  std::atomic<bool> leaving{false};
  std::thread thread;

  std::map<int, Line> lines;      // rank 0: by rank; others: to rank 0
  std::map<int, RankState> seen;  // rank 0: by rank, but itself
  bool hub_left = false;
  std::string reported;  // what this rank did when it last reported
  ProcessWork work;

  explicit State(WatchOptions given) : options(std::move(given)) {
    interval = std::clamp<Steady::duration>(options.deadline / 30, 20ms, 500ms);
  }

  void send(int rank, const json& document) {
    const std::lock_guard hold(sending);
    lines.at(rank).send(document);
  }
  Steady::duration loss_timeout() const { return std::chrono::duration_cast<Steady::duration>(options.deadline * kLossShare); }
  // With the lock held.
  template <class Use>
  auto locked(Use use) const {
    const std::lock_guard hold(lock);
    return use();
  }
  void send_all(const json& document) {
    for (const auto& [rank, line] : lines) send(rank, document);
  }
  void start() {
    thread = std::thread([this] { loop(); });
  }

  // The run is over. Told to everybody once.
  void declare(const std::string& why, bool input = false) {
    {
      const std::lock_guard hold(lock);
      if (over || all_are_through) return;
      over = true;
      over_since = Steady::now();
      reason = why;
    }
    if (options.rank == 0) send_all({{"lost", why}, {"input", input}});
    if (options.lost) options.lost(why, input);
  }

  // On the thread of the caller that ends it.
  void end(const std::string& why, bool input) {
    if (options.rank != 0) send(0, {{"abort", why}, {"input", input}});
    declare(input ? why : fmt::format("rank {} ended the run: {}", options.rank, why), input);
  }

  // Rank 0: does nobody need anybody any more? And has everybody gone?
  void settle() {
    const auto all = [this](auto&& is) { return std::all_of(seen.begin(), seen.end(), is); };
    std::function<void()> report_self;
    {
      const std::lock_guard hold(lock);
      if (all_are_through && !all_left && all([](const auto& one) { return one.second.left; })) {
        all_left = true;
        changed.notify_all();
      }
      if (over || all_are_through || !self.through) return;
      if (!all([](const auto& one) { return one.second.through || one.second.left; })) return;
      all_are_through = true;
      report_self = all_through;
    }
    send_all({{"leave", true}});
    report_self();
  }

  void sample() {
    const bool works = work.since_last();
    const std::lock_guard hold(lock);
    if (!self.waits && device_waits.empty() && works) progressed = Steady::now();
    self.quiet = Steady::now() - progressed;
  }

  // This rank's report about itself.
  RankState own() const {
    const std::lock_guard hold(lock);
    RankState mine = self;
    mine.received = Steady::now();
    if (device_waits.empty()) return mine;
    mine.waits = true;
    mine.at += fmt::format(", its GPU waiting for {}", device_waits);
    return mine;
  }

  // Rank 0: judges, and reports the ranks to each other once it is quiet.
  void check_ranks() {
    const auto now = Steady::now();
    std::map<int, RankState> all = seen;
    all[0] = own();
    const Verdict verdict = judge(all, now, loss_timeout());
    if (!verdict.loss.empty()) return declare(verdict.loss);
    {
      const std::lock_guard hold(lock);
      world_progressed = now - verdict.quiet;
      table = verdict.table;
    }
    json news{{"quiet", in_milliseconds(verdict.quiet)}};
    if (verdict.quiet > options.deadline / 2) news["table"] = verdict.table;
    for (auto& [rank, line] : lines)
      if (!seen[rank].left) send(rank, news);
  }

  void receive_from_ranks() {
    for (auto& [rank, line] : lines) {
      RankState& one = seen[rank];
      if (one.left) continue;
      bool ended = false;
      for (const json& document : line.receive(ended)) {
        one.received = Steady::now();
        if (document.contains("bye")) one.left = true;
        if (document.contains("through")) one.through = true;
        if (document.contains("abort")) {
          const std::string why = document.value("abort", "");
          const bool input = document.value("input", false);
          declare(input ? why : fmt::format("rank {} ended the run: {}", rank, why), input);
        }
        if (document.contains("at")) take_report(document, one);
      }
      if (!ended || one.left) continue;
      one.left = true;
      declare(fmt::format("rank {} is lost: its process ended; it was last seen at: {}", rank, one.at));
    }
  }

  void receive_from_hub() {
    Line& line = lines.at(0);
    bool ended = false, leave_now = false;
    for (const json& document : line.receive(ended)) {
      const std::lock_guard hold(lock);
      self.received = Steady::now();
      if (document.contains("bye")) hub_left = true;
      if (document.contains("quiet")) world_progressed = Steady::now() - std::chrono::milliseconds(document.value("quiet", 0));
      if (document.contains("table")) table = document.value("table", "");
      if (document.contains("lost")) {
        reported_loss = document.value("lost", "");
        about_input = document.value("input", false);
      }
      if (document.contains("leave") && !over) leave_now = true;
    }
    const std::string loss = locked([&] {
      all_are_through |= leave_now;
      if (all_are_through && ended) hub_left = true;
      return over ? "" : reported_loss;
    });
    if (leave_now) all_through();
    if (!loss.empty()) return declare(loss, about_input);
    if (hub_left) return;
    if (ended) declare("rank 0 is lost: its process ended");
    if (Steady::now() - self.received > loss_timeout())  // set by this thread alone
      declare(fmt::format("rank 0 is lost: nothing heard from it for {:.2g} s (stopped, or its host cannot be reached)",
                          in_seconds(loss_timeout())));
  }

  void send_report() {
    if (locked([this] { return all_are_through; })) return;
    if (options.rank == 0) return check_ranks();
    if (!hub_left) send(0, report_of(options.rank, own()));
  }

  void end_stuck_process() const {
    const std::string message =
        locked([this] { return fmt::format("panpipe: rank {}: {}: {}\n", options.rank, self.at, reason); });
    std::fputs(message.c_str(), stderr);
    std::fputs("panpipe-exec: this rank did not end by itself after the loss: ended by its watch\n", stderr);
    _exit(1);
  }

  // The rank gets on: with another action, or at the begin or the end of a wait.
  void note(const std::optional<std::string>& at, std::optional<bool> waits = std::nullopt) {
    const std::lock_guard hold(lock);
    if (at) self.at = *at;
    self.waits = waits.value_or(self.waits);
    progressed = Steady::now();
  }

  void loop() {
    auto next = Steady::now();
    while (!leaving) {
      std::vector<pollfd> sockets;
      for (auto& [rank, line] : lines)
        if (!(options.rank == 0 ? seen[rank].left : hub_left)) sockets.push_back({line.socket(), POLLIN, 0});
      const auto pause = std::clamp<std::int64_t>(in_milliseconds(next - Steady::now()), 1, 20);
      poll(sockets.data(), sockets.size(), static_cast<int>(pause));
      if (options.rank == 0) {
        receive_from_ranks();
        settle();
      } else {
        receive_from_hub();
      }
      const auto [ended, since] = locked([this] { return std::pair(over, over_since); });
      if (ended && options.kill_when_stuck && Steady::now() - since > options.deadline) end_stuck_process();
      // A rank reports its action when it changes, so that the last report of one that dies is fresh.
      const bool news = locked([this] { return std::exchange(reported, self.at) != self.at; });
      if (Steady::now() < next) {
        if (news && !ended && options.rank != 0) send_report();
        continue;
      }
      next = Steady::now() + interval;
      sample();
      if (!ended) send_report();
    }
  }
};

Watch::Watch(WatchOptions options, const Handle& listener, const std::string& token)
    : state_(std::make_unique<State>(std::move(options))) {
  state_->lines = accept_ranks(listener, state_->options.size, token, state_->options.deadline);
  for (const auto& [rank, line] : state_->lines) state_->seen[rank] = RankState{};
  state_->start();
}

Watch::Watch(WatchOptions options, const std::string& host, int port, const std::string& token)
    : state_(std::make_unique<State>(std::move(options))) {
  state_->lines[0] = connect_to_first_rank(state_->options.rank, host, port, token, state_->options.deadline);
  state_->start();
}

Watch::~Watch() {
  state_->leaving = true;
  if (state_->thread.joinable()) state_->thread.join();
  for (auto& [rank, line] : state_->lines) line.send({{"bye", true}});
}

void Watch::set_action(const std::string& action) { state_->note(action); }
void Watch::begin_wait(const std::string& what) { state_->note(what, true); }
void Watch::end_wait() { state_->note(std::nullopt, false); }
void Watch::progress() { state_->note(std::nullopt); }

void Watch::device(const std::string& waits_for, std::vector<Standing> operations) {
  const std::lock_guard hold(state_->lock);
  state_->device_waits = waits_for;
  state_->self.operations = std::move(operations);
}

void Watch::end(const std::string& why, bool input) noexcept {
  try {
    state_->end(why, input);
  } catch (...) {  // the others notice the closed connection
  }
}

void Watch::leave(std::function<void()> all_through) {
  state_->locked([&] {
    state_->all_through = std::move(all_through);
    state_->self.through = true;
  });
  if (state_->options.rank != 0) state_->send(0, {{"through", true}});
}

void Watch::farewell(Steady::duration timeout) {
  if (state_->options.rank != 0) return state_->send(0, {{"bye", true}});
  std::unique_lock hold(state_->lock);
  state_->changed.wait_for(hold, timeout, [this] { return state_->all_left; });
}

Steady::duration Watch::world_quiet() const {
  return state_->locked([this] { return Steady::now() - std::max(state_->world_progressed, state_->progressed); });
}

std::string Watch::standstill(Steady::duration deadline) {
  if (world_quiet() <= deadline) return "";
  const std::string table = state_->locked([this] { return state_->table; });
  return fmt::format("no rank made progress for {:.3g} s{}{}", in_seconds(deadline), table.empty() ? "" : "; ", table);
}

}  // namespace panpipe::exec
