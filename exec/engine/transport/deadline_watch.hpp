// The processes of a run watch each other. In addition to data connections, every rank holds one connection to rank 0, over which
// it reports its current action and its last progress ten times per deadline. Rank 0 informs all ranks when one is lost:
//   its connection closed without a goodbye          the process ended (noticed at once)
//   no message for the deadline                      stopped, or its host is unreachable
//   no progress for the deadline while not waiting   stuck
//   all ranks of an operation are in it on their     the operation hangs
//     devices, without progress for the deadline
//   it reported so                                   abort()
// The end of a run is not a loss: each rank reports that it no longer needs the others, and ends when rank 0 reports that all
// have. Progress is processor time of the process, bytes read and written, or an arrived message, so long compute is not a loss.
// While the rank's device waits for another's, its host's processor time does not count: hosts spin for their devices. No
// LibTorch here.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/engine/transport/loss_verdict.hpp"
#include "exec/engine/transport/wait_limit.hpp"
#include "exec/launch/sockets.hpp"

namespace panpipe::exec {

struct WatchOptions {
  int rank = 0, size = 1;
  std::chrono::steady_clock::duration deadline = std::chrono::seconds(10);
  // After a reported loss, a process that has not sent a goodbye within the deadline is ended by its own watch with exit code 1,
  // because its main thread hangs where it cannot be interrupted.
  bool kill_when_stuck = false;
  // Called once, on the watch's thread, when the run is over, with the reason. `input`: the cause is wrong input; `reason` is
  // then the complete text for the user.
  std::function<void(const std::string& reason, bool input)> lost;
};

class Watch : public FailureDetector {
 public:
  // The event that the rank's device waits for ("" for none), and the operations that it has reached; of operations that run in
  // order, at most one.
  virtual void device(const std::string& waits_for, std::vector<Standing> operations) = 0;
  virtual void abort(const std::string& reason) noexcept = 0;
  virtual void refuse(const std::string& text) noexcept = 0;  // abort() for wrong input, with the text for the user

  // This rank no longer needs the others. `all_through` is called on the watch's thread once this is true of every rank; from
  // then on no rank can be lost.
  virtual void leave(std::function<void()> all_through) = 0;
  // Call it after that: sends a goodbye. Rank 0 waits until all ranks have, so that no rank learns of the end from a closed
  // connection.
  virtual void farewell(std::chrono::steady_clock::duration timeout) = 0;

  // How long no rank in the world has made progress, as far as this rank knows.
  virtual std::chrono::steady_clock::duration world_quiet() const = 0;
};

// Rank 0 has a listener (rank_meeting.hpp), and the other ranks connect to it; `token` is shared by all ranks of a run. Return
// when all ranks are connected; throw MachineError with the missing ranks after the deadline. Destroying a watch sends a goodbye.
std::unique_ptr<Watch> watch_as_first_rank(WatchOptions options, const Handle& listener, const std::string& token);
std::unique_ptr<Watch> watch_as_other_rank(WatchOptions options, const std::string& host, int port, const std::string& token);

}  // namespace panpipe::exec
