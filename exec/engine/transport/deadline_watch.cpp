#include "exec/engine/transport/deadline_watch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
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

// Below this a change of the byte counters is our own reading of them.
constexpr std::uint64_t kLeastBytes = 4096;
// A loss names who is lost; it comes a little before the waits of the others, who only know what they wait for, give up.
constexpr double kLossShare = 0.85;

// Bytes that read() and write() of this process moved: checkpoints and data files, not sockets.
std::uint64_t bytes_moved() {
  std::ifstream file("/proc/self/io");
  std::string key;
  std::uint64_t value = 0, sum = 0;
  for (int line = 0; line < 2 && file >> key >> value; ++line) sum += value;  // rchar, wchar
  return sum;
}

class ProcessWork {
 public:
  // Has this process worked since the last call?
  bool since_last() {
    const auto now = Steady::now();
    const auto used = process_cpu_time();
    const std::uint64_t bytes = bytes_moved();
    const double share = std::chrono::duration<double>(used - cpu_) / std::chrono::duration<double>(now - sampled_);
    const bool works = share > kIdleShare || bytes > moved_ + kLeastBytes;
    cpu_ = used;
    sampled_ = now;
    moved_ = bytes;
    return works;
  }

 private:
  std::chrono::nanoseconds cpu_{process_cpu_time()};
  Steady::time_point sampled_ = Steady::now();
  std::uint64_t moved_ = bytes_moved();
};

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
  void declare(const std::string& why, bool input = false);
  void end(const std::string& why, bool input);
  void settle();
  void sample();
  RankState own() const;
  void check_ranks();
  void receive_from_hub();
  void receive_from_ranks();
  void send_report();
  void loop();
};

// The run is over. Told to everybody once.
void Watch::State::declare(const std::string& why, bool input) {
  {
    const std::lock_guard hold(lock);
    if (over || all_are_through) return;
    over = true;
    over_since = Steady::now();
    reason = why;
  }
  if (options.rank == 0)
    for (auto& [rank, line] : lines) send(rank, {{"lost", why}, {"input", input}});
  if (options.lost) options.lost(why, input);
}

// On the thread of the caller that ends it.
void Watch::State::end(const std::string& why, bool input) {
  if (options.rank != 0) send(0, {{"abort", why}, {"input", input}});
  declare(input ? why : fmt::format("rank {} ended the run: {}", options.rank, why), input);
}

// Rank 0: does nobody need anybody any more? And has everybody gone?
void Watch::State::settle() {
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
  for (auto& [rank, line] : lines) send(rank, {{"leave", true}});
  report_self();
}

void Watch::State::sample() {
  const bool works = work.since_last();
  const std::lock_guard hold(lock);
  if (!self.waits && device_waits.empty() && works) progressed = Steady::now();
  self.quiet = Steady::now() - progressed;
}

// This rank's report about itself.
RankState Watch::State::own() const {
  const std::lock_guard hold(lock);
  RankState mine = self;
  mine.received = Steady::now();
  if (device_waits.empty()) return mine;
  mine.waits = true;
  mine.at += fmt::format(", its GPU waiting for {}", device_waits);
  return mine;
}

// Rank 0: judges, and reports the ranks to each other once it is quiet.
void Watch::State::check_ranks() {
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

void Watch::State::receive_from_ranks() {
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

void Watch::State::receive_from_hub() {
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
  std::string loss;
  bool silent = false;
  {
    const std::lock_guard hold(lock);
    if (!over && !reported_loss.empty()) loss = reported_loss;
    silent = Steady::now() - self.received > loss_timeout();
    all_are_through |= leave_now;
    if (all_are_through && ended) hub_left = true;
  }
  if (leave_now) all_through();
  if (!loss.empty()) return declare(loss, about_input);
  if (hub_left) return;
  if (ended) declare("rank 0 is lost: its process ended");
  if (silent)
    declare(fmt::format("rank 0 is lost: nothing heard from it for {:.2g} s (stopped, or its host cannot be reached)",
                        in_seconds(loss_timeout())));
}

void Watch::State::send_report() {
  {
    const std::lock_guard hold(lock);
    if (all_are_through) return;
  }
  if (options.rank == 0) return check_ranks();
  if (!hub_left) send(0, report_of(options.rank, own()));
}

void Watch::State::loop() {
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
    bool ended = false;
    Steady::time_point since;
    {
      const std::lock_guard hold(lock);
      ended = over;
      since = over_since;
    }
    if (ended && options.kill_when_stuck && Steady::now() - since > options.deadline) {
      std::string message;
      {
        const std::lock_guard hold(lock);
        message = fmt::format("panpipe: rank {}: {}: {}\n", options.rank, self.at, reason);
      }
      std::fputs(message.c_str(), stderr);
      std::fputs("panpipe-exec: this rank did not end by itself after the loss: ended by its watch\n", stderr);
      _exit(1);
    }
    // A rank reports its action when it changes, so that the last report of one that dies is fresh.
    bool news = false;
    {
      const std::lock_guard hold(lock);
      news = self.at != reported;
      if (news) reported = self.at;
    }
    if (Steady::now() < next) {
      if (news && !ended && options.rank != 0) send_report();
      continue;
    }
    next = Steady::now() + interval;
    sample();
    if (!ended) send_report();
  }
}

Watch::Watch(WatchOptions options, int listener, const std::string& token) : state_(std::make_unique<State>(std::move(options))) {
  struct Closed {
    int socket;
    ~Closed() { close(socket); }
  } closed{listener};
  state_->lines = accept_ranks(listener, state_->options.size, token, state_->options.deadline);
  for (const auto& [rank, line] : state_->lines) state_->seen[rank] = RankState{};
  state_->thread = std::thread([state = state_.get()] { state->loop(); });
}

Watch::Watch(WatchOptions options, const std::string& host, int port, const std::string& token)
    : state_(std::make_unique<State>(std::move(options))) {
  state_->lines[0] = connect_to_first_rank(state_->options.rank, host, port, token, state_->options.deadline);
  state_->thread = std::thread([state = state_.get()] { state->loop(); });
}

Watch::~Watch() {
  state_->leaving = true;
  if (state_->thread.joinable()) state_->thread.join();
  for (auto& [rank, line] : state_->lines) line.send({{"bye", true}});
}

void Watch::set_action(const std::string& action) {
  const std::lock_guard hold(state_->lock);
  state_->self.at = action;
  state_->progressed = Steady::now();
}

void Watch::begin_wait(const std::string& what) {
  const std::lock_guard hold(state_->lock);
  state_->self.at = what;
  state_->self.waits = true;
  state_->progressed = Steady::now();
}

void Watch::end_wait() {
  const std::lock_guard hold(state_->lock);
  state_->self.waits = false;
  state_->progressed = Steady::now();
}

void Watch::progress() {
  const std::lock_guard hold(state_->lock);
  state_->progressed = Steady::now();
}

void Watch::device(const std::string& waits_for, std::vector<Standing> operations) {
  const std::lock_guard hold(state_->lock);
  state_->device_waits = waits_for;
  state_->self.operations = std::move(operations);
}

void Watch::abort(const std::string& why) noexcept {
  try {
    state_->end(why, false);
  } catch (...) {  // the others notice the closed connection
  }
}

void Watch::refuse(const std::string& text) noexcept {
  try {
    state_->end(text, true);
  } catch (...) {  // as above
  }
}

void Watch::leave(std::function<void()> all_through) {
  {
    const std::lock_guard hold(state_->lock);
    state_->all_through = std::move(all_through);
    state_->self.through = true;
  }
  if (state_->options.rank != 0) state_->send(0, {{"through", true}});
}

void Watch::farewell(Steady::duration timeout) {
  if (state_->options.rank != 0) return state_->send(0, {{"bye", true}});
  std::unique_lock hold(state_->lock);
  state_->changed.wait_for(hold, timeout, [this] { return state_->all_left; });
}

Steady::duration Watch::world_quiet() const {
  const std::lock_guard hold(state_->lock);
  return Steady::now() - std::max(state_->world_progressed, state_->progressed);
}

std::string Watch::others() const {
  const std::lock_guard hold(state_->lock);
  return state_->table;
}

}  // namespace panpipe::exec
