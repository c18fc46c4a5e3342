#include "exec/engine/transport/mailbox.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
// The watch knows more about a broken connection than the connection; it gets this long to report it.
constexpr Clock::duration kWatchFirst = 1s;

InputError refusal(const std::string& text) { return InputError({Diagnostic{.message = text, .rendered = true}}); }

}  // namespace

void Mailbox::put(const Key& key, at::Tensor value) {
  change([&] { messages_[key].push_back({std::move(value), Clock::now()}); });
}

bool Mailbox::has(const Key& key) {
  const std::lock_guard hold(lock_);
  return messages_.count(key) > 0;
}

Mailbox::Message Mailbox::take(const Key& key, Watch& watch, Clock::duration deadline, const std::string& what) {
  std::unique_lock hold(lock_);
  wait_for(
      hold, [&] { return messages_.count(key) > 0; }, std::get<0>(key), watch, deadline, what);
  return pop(key);
}

std::optional<at::Tensor> Mailbox::take_unless(const Key& key, const std::atomic<bool>& closing) {
  std::unique_lock hold(lock_);
  while (messages_.count(key) == 0) {
    if (closing || !reason_.empty()) return std::nullopt;
    changed_.wait_for(hold, 100ms);
  }
  return pop(key).value;
}

Mailbox::Message Mailbox::pop(const Key& key) {
  const auto found = messages_.find(key);
  Message message = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) messages_.erase(found);
  return message;
}

void Mailbox::set(Flag& flag) {
  change([&] { flag = {true, Clock::now()}; });
}

bool Mailbox::get(const Flag& flag) {
  const std::lock_guard hold(lock_);
  return flag.set;
}

Clock::time_point Mailbox::wait(const Flag& flag, Watch& watch, Clock::duration deadline, const std::string& what, int peer) {
  std::unique_lock hold(lock_);
  wait_for(
      hold, [&] { return flag.set; }, peer, watch, deadline, what);
  return flag.at;
}

void Mailbox::end(const std::string& reason, bool input) {
  change([&] {
    if (!reason_.empty()) return;
    reason_ = reason;
    about_input_ = input;
  });
}

bool Mailbox::ended() {
  const std::lock_guard hold(lock_);
  return !reason_.empty();
}

void Mailbox::broken(int rank, const std::string& message) {
  change([&] { broken_.emplace(rank, std::pair(Clock::now(), message)); });
}

namespace {

struct Waiting {
  Watch& watch;
  Waiting(Watch& whose, const std::string& what) : watch(whose) { watch.begin_wait(what); }
  ~Waiting() { watch.end_wait(); }
};

}  // namespace

// Is there a reason to wait no longer? Under the lock.
void Mailbox::throw_end(int from, Watch& watch, Clock::duration deadline, const std::string& what) const {
  if (!reason_.empty() && about_input_) throw refusal(reason_);
  if (!reason_.empty()) throw PeerLost(fmt::format("{}: {}", what, reason_));
  if (const auto gone = broken_.find(from); gone != broken_.end() && Clock::now() - gone->second.first > kWatchFirst)
    throw PeerLost(fmt::format("{}: the connection to rank {} broke: {}", what, from, gone->second.second));
  if (watch.world_quiet() > deadline) {
    const std::string others = watch.others();
    throw PeerLost(fmt::format("{}: nothing arrived and no rank made progress for {:.3g} s{}", what,
                               std::chrono::duration<double>(deadline).count(), others.empty() ? "" : "; " + others));
  }
}

void Mailbox::wait_for(std::unique_lock<std::mutex>& hold, const std::function<bool()>& ready, int from, Watch& watch,
                       Clock::duration deadline, const std::string& what) {
  if (ready()) return;
  const Waiting waiting(watch, what);
  const auto slice = std::clamp<Clock::duration>(deadline / 10, 1ms, 100ms);
  while (!ready()) {
    throw_end(from, watch, deadline, what);
    changed_.wait_for(hold, slice);
  }
}

void Mailbox::poll(const std::function<bool()>& ready, Watch& watch, Clock::duration deadline, const std::string& what) {
  if (ready()) return;
  const Waiting waiting(watch, what);
  for (Pauses pauses; !ready(); pauses.next()) {
    const std::lock_guard hold(lock_);
    throw_end(-1, watch, deadline, what);
  }
}

}  // namespace panpipe::exec
