#include "exec/engine/transport/mailbox.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
// The watch knows more about a broken connection than the connection; it gets this long to report it.
constexpr Clock::duration kWatchFirst = 1s;

struct Waiting {
  FailureDetector& detector;
  bool came = false;
  Waiting(FailureDetector& of_rank, const std::string& what, bool for_another) : detector(of_rank) {
    detector.begin_wait(what, for_another);
  }
  ~Waiting() { detector.end_wait(came); }
};

}  // namespace

void Mailbox::put(const Key& key, Message message) {
  change([&] { messages_[key].push_back(std::move(message)); });
}

bool Mailbox::has(const Key& key) {
  const std::lock_guard hold(lock_);
  return messages_.count(key) > 0;
}

Mailbox::Message Mailbox::take(const Key& key, Clock::duration deadline, const std::string& what) {
  std::unique_lock hold(lock_);
  wait_for(
      hold, [&] { return messages_.count(key) > 0; }, std::get<0>(key), deadline, what);
  return pop(key);
}

void Mailbox::clear() {
  std::map<Key, std::deque<Message>> untaken;  // they end outside the lock
  const std::lock_guard hold(lock_);
  untaken.swap(messages_);
}

std::optional<at::Tensor> Mailbox::take_unless(const Key& key, const std::atomic<bool>& closing) {
  std::unique_lock hold(lock_);
  while (messages_.count(key) == 0) {
    if (closing || over()) return std::nullopt;
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

Clock::time_point Mailbox::wait(const Flag& flag, Clock::duration deadline, const std::string& what, int peer) {
  std::unique_lock hold(lock_);
  wait_for(
      hold, [&] { return flag.set; }, peer, deadline, what);
  return flag.at;
}

void Mailbox::end(const std::string& reason) {
  change([&] {
    if (!over()) reason_ = reason;
  });
}

void Mailbox::end(const InputError& refusal) {
  change([&] {
    if (!over()) refusal_ = refusal;
  });
}

bool Mailbox::ended() {
  const std::lock_guard hold(lock_);
  return over();
}

void Mailbox::broken(int rank, const std::string& message) {
  change([&] { broken_.emplace(rank, std::pair(Clock::now(), message)); });
}

// Is there a reason to wait no longer? Under the lock.
void Mailbox::throw_end(int from, Clock::duration deadline, const std::string& what) const {
  if (refusal_) throw *refusal_;
  if (!reason_.empty()) throw PeerLost(fmt::format("{}: {}", what, reason_));
  if (const auto gone = broken_.find(from); gone != broken_.end() && Clock::now() - gone->second.first > kWatchFirst)
    throw PeerLost(fmt::format("{}: the connection to rank {} broke: {}", what, from, gone->second.second));
  if (const std::string fault = detector_->standstill(deadline); !fault.empty())
    throw PeerLost(fmt::format("{}: nothing arrived and {}", what, fault));
}

void Mailbox::wait_for(std::unique_lock<std::mutex>& hold, const std::function<bool()>& ready, int from, Clock::duration deadline,
                       const std::string& what) {
  if (ready()) return;
  Waiting waiting(*detector_, what, true);
  const auto slice = std::clamp<Clock::duration>(deadline / 10, 1ms, 100ms);
  while (!ready()) {
    throw_end(from, deadline, what);
    changed_.wait_for(hold, slice);
  }
  waiting.came = true;
}

void Mailbox::poll(const std::function<bool()>& ready, Clock::duration deadline, const std::string& what) {
  if (ready()) return;
  Waiting waiting(*detector_, what, false);
  for (Pauses pauses; !ready(); pauses.next()) {
    const std::lock_guard hold(lock_);
    throw_end(-1, deadline, what);
  }
  waiting.came = true;
}

}  // namespace panpipe::exec
