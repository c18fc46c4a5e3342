// Passes arrived messages from the threads that bring them to the waiting thread of a rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "exec/engine/transport/transport.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {

// Separates messages by purpose: the run's, those of all_gather(), announcements of NCCL transfers, those transfers, the members
// of a new group, rows that a group exchanges, and the results of a group of threads.
enum class Channel : std::uint32_t { User = 0, Control = 1, Announced = 2, Device = 3, Arrival = 4, Exchange = 5, Joined = 6 };

class Mailbox {
 public:
  using Key = std::tuple<int, Channel, std::uint32_t>;  // (from, channel, tag)
  struct Message {
    at::Tensor value;
    DeviceMark written{};  // on a GPU of threads: the sender's stream has written it
    PendingPtr filling{};  // the operation that fills it, where that is under way
    Clock::time_point arrived = Clock::now();
  };

  // Before the first wait. The detector outlives the waits.
  void watch_with(FailureDetector& detector) { detector_ = &detector; }

  void put(const Key& key, Message message);
  bool has(const Key& key);
  Message take(const Key& key, Clock::duration deadline, const std::string& what);
  // Messages that nobody took go, and the operations that fill them.
  void clear();
  // For background threads, which the detector does not count as waiting. Returns nullopt once `closing` is set or the run is
  // over.
  std::optional<at::Tensor> take_unless(const Key& key, const std::atomic<bool>& closing);

  // A one-time event that a thread waits for.
  struct Flag {
    bool set = false;
    Clock::time_point at{};
  };
  void set(Flag& flag);
  bool get(const Flag& flag);
  // Waits until the flag is set; returns the time when it was. Throws PeerLost if the run is over or no rank makes progress.
  // `peer`: the rank whose connection it needs; -1 = none in particular.
  Clock::time_point wait(const Flag& flag, Clock::duration deadline, const std::string& what, int peer = -1);

  // Polls until `ready` returns true; for events of this rank's device. Throws PeerLost as above.
  void poll(const std::function<bool()>& ready, Clock::duration deadline, const std::string& what);

  // Ends the run: every wait fails with this reason, or throws this refusal. The first stays.
  void end(const std::string& reason);
  void end(const InputError& refusal);
  bool ended();
  // Reports a broken data connection to a rank. Harmless if that rank has sent a goodbye; otherwise the watch soon reports the
  // cause.
  void broken(int rank, const std::string& message);

 private:
  template <class Change>
  void change(Change made) {
    {
      const std::lock_guard hold(lock_);
      made();
    }
    changed_.notify_all();
  }
  bool over() const { return refusal_ || !reason_.empty(); }
  void throw_end(int from, Clock::duration deadline, const std::string& what) const;
  void wait_for(std::unique_lock<std::mutex>& hold, const std::function<bool()>& ready, int from, Clock::duration deadline,
                const std::string& what);
  Message pop(const Key& key);

  std::mutex lock_;
  std::condition_variable changed_;
  FailureDetector* detector_ = nullptr;
  std::map<Key, std::deque<Message>> messages_;
  std::map<int, std::pair<Clock::time_point, std::string>> broken_;
  std::string reason_;
  std::optional<InputError> refusal_;
};

}  // namespace panpipe::exec
