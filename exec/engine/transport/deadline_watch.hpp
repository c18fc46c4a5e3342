// Processes of a run watch each other: every rank holds one connection to rank 0, beside those of the data, over which it tells
// ten times a deadline what it does and when it last made progress. Rank 0 tells everybody when one is lost:
//   its connection closed without a goodbye          the process ended (noticed at once)
//   nothing heard for the deadline                   stopped, or its host is unreachable
//   it waits for nobody and stands still for it      stuck
//   all whom it takes are in an operation of their   the operation hangs
//     devices, and it has stood still for it
//   it said so                                       abort()
// The end is no loss: each rank says when it needs the others no more, and goes when rank 0 says that all have said so.
// Progress is processor time of the process, bytes read and written, or a message that arrived; so long compute is no loss. While
// the rank's device waits for another's, its host's processor time is none: hosts spin for their devices.
// No LibTorch here.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace panpipe::exec {

struct WatchOptions {
  int rank = 0, size = 1;
  std::chrono::steady_clock::duration deadline = std::chrono::seconds(10);
  // After a loss was told, a process that has not said goodbye within the deadline is ended by its own watch with exit code 1:
  // its main thread hangs somewhere that cannot be interrupted.
  bool kill_when_stuck = false;
  // Called once, on the watch's thread: the run is over, and why. `input`: because what was given is wrong; `reason` is then
  // the whole text for the user.
  std::function<void(const std::string& reason, bool input)> lost;
};

// An operation that devices of several ranks do together, and that this rank's has come to.
struct Standing {
  std::string id;                              // the same on all of them
  int members = 2;                             // how many
  std::string sentence;                        // of one of them: "rank 1 is stuck: its message to rank 0"; else empty
  std::chrono::steady_clock::duration time{};  // since it came to it
};

class Line;
// Over a connection to rank 0's watch: this rank and rank 0 show each other that they know the token. False when what answers
// there does not, or goes, or takes until `end`.
bool introduce(Line& line, int rank, const std::string& token, std::chrono::steady_clock::time_point end);

class Watch {
 public:
  // Rank 0 listens on a port of the system's choice, at all of its addresses or where only this host reaches it ...
  static int listen_anywhere(int& port);
  static int listen_here(int& port);
  // ... and is its own listener's owner; the others connect to it. `token` is what all of a run share: each side shows the other
  // that it knows it, and does not send it. Whatever else comes to the port is dropped. Returns when everybody is there;
  // MachineError after the deadline, naming who is missing.
  Watch(WatchOptions options, int listener, const std::string& token);
  Watch(WatchOptions options, const std::string& host, int port, const std::string& token);
  ~Watch();  // says goodbye

  void doing(const std::string& action);
  // Marks the time in which the rank waits for another, and what for.
  void begin_wait(const std::string& what);
  void end_wait();
  void progress();  // a message arrived, or the device computes
  // What the rank's device waits for ("" for nothing), and the operations that it stands in, at most one of those that are done
  // in order.
  void device(const std::string& waits_for, std::vector<Standing> operations);
  void abort(const std::string& reason) noexcept;
  void refuse(const std::string& text) noexcept;  // abort() because what was given is wrong, with the text for the user

  // This rank needs the others no more. `all_through` is called, on the watch's thread, once that is so of every rank: from then
  // on nobody can be lost.
  void leave(std::function<void()> all_through);
  // After that: says goodbye. Rank 0 waits until all have, so that nobody learns of the end from a connection that closes.
  void farewell(std::chrono::steady_clock::duration patience);

  // How long nobody in the world has made progress, as far as this rank knows, and what the others do (for messages).
  std::chrono::steady_clock::duration world_quiet() const;
  std::string others() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace panpipe::exec
