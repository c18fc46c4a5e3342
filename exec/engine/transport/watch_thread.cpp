#include "exec/engine/transport/watch_thread.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;

// A loss names who is lost; it comes a little before the waits of the others, who only know what they wait for, give up.
constexpr double kLossShare = 0.85;

}  // namespace

std::string ended_by(int rank, const std::string& why, bool input) {
  return input ? why : fmt::format("rank {} ended the run: {}", rank, why);
}

WatchThread::WatchThread(WatchOptions given)
    : options_(std::move(given)), interval_(std::clamp<Steady::duration>(options_.deadline / 30, 20ms, 500ms)) {}

std::string WatchThread::standstill(Steady::duration deadline) {
  if (world_quiet() <= deadline) return "";
  const std::lock_guard hold(lock_);
  return fmt::format("no rank made progress for {:.3g} s{}{}", in_seconds(deadline), table_.empty() ? "" : "; ", table_);
}

WatchThread::Steady::duration WatchThread::loss_timeout() const {
  return std::chrono::duration_cast<Steady::duration>(options_.deadline * kLossShare);
}

void WatchThread::declare(const std::string& why, bool input) {
  {
    const std::lock_guard hold(lock_);
    if (over_since_ || all_are_through_) return;
    over_since_ = Steady::now();
    reason_ = why;
  }
  spread({{"lost", why}, {"input", input}});
  if (options_.lost) options_.lost(why, input);
}

void WatchThread::end(const std::string& why, bool input) noexcept {
  try {
    send_to_first({{"abort", why}, {"input", input}});
    declare(ended_by(options_.rank, why, input), input);
  } catch (...) {  // the others notice the closed connection
  }
}

void WatchThread::end_stuck_process(const std::string& reason) const {
  std::fputs(fmt::format("panpipe: rank {}: {}: {}\n", options_.rank, own_.at(), reason).c_str(), stderr);
  std::fputs("panpipe-exec: this rank did not end by itself after the loss: ended by its watch\n", stderr);
  _exit(1);
}

void WatchThread::loop() {
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

}  // namespace panpipe::exec
