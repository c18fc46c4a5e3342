// Passes arrived messages from a process's background threads to its waiting main thread.
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

#include "exec/engine/transport/deadline_watch.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Separates messages by purpose: the run's, those of all_gather(), announcements of NCCL transfers, those transfers, the members
// of a new group, and rows that a group exchanges.
enum class Channel : std::uint32_t { User = 0, Control = 1, Announced = 2, Device = 3, Arrival = 4, Exchange = 5 };

class Mailbox {
 public:
  using Key = std::tuple<int, Channel, std::uint32_t>;  // (from, channel, tag)

  void put(const Key& key, at::Tensor value);
  bool has(const Key& key);
  struct Message {
    at::Tensor value;
    Clock::time_point arrived;
  };
  Message take(const Key& key, Watch& watch, Clock::duration deadline, const std::string& what);
  // For background threads, which the watch does not count as waiting. Returns nullopt once `closing` is set or the run is over.
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
  Clock::time_point wait(const Flag& flag, Watch& watch, Clock::duration deadline, const std::string& what, int peer = -1);

  // Polls until `ready` returns true; for events without notification. Throws PeerLost as above.
  void poll(const std::function<bool()>& ready, Watch& watch, Clock::duration deadline, const std::string& what);

  // Ends the run: every wait fails with this reason. The first reason stays. `input`: the cause is wrong input, and the reason is
  // the text for the user.
  void end(const std::string& reason, bool input = false);
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
  void throw_end(int from, Watch& watch, Clock::duration deadline, const std::string& what) const;
  void wait_for(std::unique_lock<std::mutex>& hold, const std::function<bool()>& ready, int from, Watch& watch,
                Clock::duration deadline, const std::string& what);
  Message pop(const Key& key);

  std::mutex lock_;
  std::condition_variable changed_;
  std::map<Key, std::deque<Message>> messages_;
  std::map<int, std::pair<Clock::time_point, std::string>> broken_;
  std::string reason_;
  bool about_input_ = false;
};

// An operation whose end the mailbox notes, and whose wait the watch may end.
struct WatchedPending : Pending {
  WatchedPending(std::shared_ptr<Mailbox> of, Watch& by) : mailbox(std::move(of)), watch(by) {}
  std::shared_ptr<Mailbox> mailbox;
  Watch& watch;
};

}  // namespace panpipe::exec
