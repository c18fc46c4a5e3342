// How ranks exchange tensors: one contract, several transports (threads of one process, Gloo, NCCL), one test suite for all.
//
// All operations are asynchronous: a call posts the operation and returns; wait() returns when it is done. A message is matched
// by (sender, tag), and two messages of one sender never share a tag within a step. Receives may be posted long before the send.
// The receiver states shape and element type; a message of another size is an error at the receiver that names both.
//
// A wait ends with PeerLost if a rank is lost (its process ended, its host fell silent, it is stuck), if a rank called abort(),
// or if no rank made progress for the deadline. A healthy peer may compute for longer than that (docs/models/transports.md).
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "exec/engine/transport/device_mark.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {

using Clock = std::chrono::steady_clock;

// The run is over: a peer is gone or silent beyond the deadline, or a rank called abort(). `what()` names the awaited event.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The tensor that a receiver expects.
struct TensorSpec {
  std::vector<std::int64_t> shape;
  at::ScalarType dtype{};
  at::Device device{at::kCPU};
};

// A pending operation. Keeps its tensors alive.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool done() = 0;
  // Returns when the data have arrived (receive), may be reused (send) or are reduced. `what` names the waiting action in
  // messages. Throws PeerLost after `deadline` without progress on any rank.
  virtual void wait(Clock::duration deadline, const std::string& what) = 0;
  // After wait() of a receive: the received tensor. The receiver may write to it.
  at::Tensor value;
  // After wait(): the time of completion (arrived, reduced) by the host's clock or on the device, if the transport knows it; else
  // neither is set.
  Clock::time_point completed{};
  DeviceMark landed;
};
using PendingPtr = std::shared_ptr<Pending>;

// Done at once.
struct Nothing : Pending {
  bool done() override { return true; }
  void wait(Clock::duration, const std::string&) override {}
};

// Ranks that communicate together. Every rank of the world makes the groups in the same order, before the first step.
struct Group {
  std::vector<int> ranks;  // ascending, at least two
  int id = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* name() const = 0;
  // This rank's index among those of its host, and their number; threads are all on one host.
  virtual int local_rank() const { return rank(); }
  virtual int local_size() const { return size(); }

  virtual PendingPtr send(at::Tensor value, int to, std::uint32_t tag) = 0;
  virtual PendingPtr receive(const TensorSpec& expected, int from, std::uint32_t tag) = 0;

  virtual Group make_group(const std::vector<int>& ranks) = 0;
  // Sums over the group, in place. All members call operations on one group in the same order.
  virtual PendingPtr all_reduce(at::Tensor value, const Group& group) = 0;
  // Sends the value of rank `root` (a member, numbered as in the world) to the whole group, in place. Ordered as all_reduce.
  virtual PendingPtr broadcast(at::Tensor value, int root, const Group& group) = 0;
  // `whole` is contiguous and holds one part per member, in member order and of equal size (part_of). In place, ordered as
  // all_reduce. Each member has filled in its own part; afterwards every member has all parts.
  virtual PendingPtr all_gather(at::Tensor whole, const Group& group) = 0;
  // Afterwards this rank's part is the sum over the group; the other parts are undefined.
  virtual PendingPtr reduce_scatter(at::Tensor whole, const Group& group) = 0;
  // Sends rows (along the first dimension) to all members: the first `sent[0]` to the first member, and so on. Pending::value
  // receives `received[i]` rows from member i, in member order. Both sides know the numbers, which may be 0; a mismatch is an
  // error at the receiver. The rows must not change until wait() returns. Ordered as all_reduce.
  virtual PendingPtr all_to_all(at::Tensor rows, const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received,
                                const Group& group) = 0;

  // Creates connections now, and uses them once, so that the first messages between GPUs and the first sums of existing groups
  // are as fast as later ones. `ways`: (from, to) of the messages that this rank sends or receives. Every rank calls it in its
  // own thread, with its device and stream set. Does nothing if connections are made at the start.
  virtual void connect(const std::vector<std::pair<int, int>>& ways, at::Device device, Clock::duration deadline) {
    static_cast<void>(ways), static_cast<void>(device), static_cast<void>(deadline);
  }
  virtual void barrier(Clock::duration deadline, const std::string& what) = 0;
  // Every rank's bytes, in rank order, on every rank. For small control data.
  virtual std::vector<std::string> all_gather(const std::string& bytes, Clock::duration deadline, const std::string& what) = 0;

  // Returns when `device` has finished this thread's current stream; does nothing on a CPU. Call it before the host reads a
  // device's result: that read cannot be interrupted, but this wait ends like any other.
  virtual void settle(at::Device device, Clock::duration deadline, const std::string& what) = 0;

  // States this rank's next action ("writing the checkpoint"), for messages of other ranks if this one is lost.
  virtual void set_action(const std::string& action) = 0;
  const std::string& action() const { return action_; }  // the last argument of set_action()

  // Ends the run on all ranks: every wait of every rank soon throws PeerLost with this reason.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Like abort(), for wrong input: every wait of every rank throws an InputError with the same text.
  virtual void refuse(const InputError& error) noexcept = 0;
  // The last call of a rank; returns when every rank has called it. A rank that ends before this call counts as lost, one that
  // ends after it does not.
  virtual void leave(Clock::duration deadline, const std::string& what) = 0;

 protected:
  std::string action_;
};

// Part `member` of `members` equal parts, as a flat view.
at::Tensor part_of(const at::Tensor& whole, std::size_t member, std::size_t members);
// The index of a rank in its group.
std::size_t member_of(const Group& group, int rank);

// Threads of one process: transport i belongs to rank i; they share a hub.
std::vector<std::unique_ptr<Transport>> make_local_transports(int size);
// One process per rank. `version` is compared between ranks. Throws MachineError with an explanation: master unreachable, ranks
// missing, a rank started for another world size or with another version. `kill_when_stuck`: a rank that learns of a loss and
// does not end within the deadline ends its process.
struct ProcessOptions {
  World world;
  Clock::duration deadline = std::chrono::seconds(10);
  std::string version;
  bool kill_when_stuck = false;
};
std::unique_ptr<Transport> make_gloo_transport(const ProcessOptions& options);
// Sends tensors on GPUs over NCCL, everything else like gloo. Throws MachineError without a GPU or NCCL.
std::unique_ptr<Transport> make_nccl_transport(const ProcessOptions& options);

// Compares the ranks' inputs (scenario, plan, graph ...: name and hash). If two differ, every rank throws InputError with the
// values of each.
struct Agreement {
  std::string name;   // "scenario"
  std::string value;  // a hash, or short text
};
void agree(Transport& transport, const std::vector<Agreement>& facts, Clock::duration deadline);

}  // namespace panpipe::exec
