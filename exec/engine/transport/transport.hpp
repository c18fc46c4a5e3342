// How ranks exchange tensors: one contract, several transports (threads of one process, Gloo, NCCL), one test-suite for all.
//
// Everything is asynchronous: a call posts the operation and returns; wait() ends when it is done. A message is matched by
// (sender, tag); two messages of one sender never share a tag within a step. Receives may be posted long before the send. The
// receiver states shape and element type; a message of another size is an error at the receiver that names both.
//
// A wait ends in PeerLost when a rank is lost (its process ended, its host fell silent, it is stuck), when somebody called
// abort(), or when for the deadline no rank made progress: a healthy peer may compute for longer than that
// (docs/models/transports.md).
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "exec/engine/transport/device_mark.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {

using Clock = std::chrono::steady_clock;

// A peer is gone or silent beyond the deadline, or somebody called abort(): the run is over. `what()` says what was awaited.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a receiver expects.
struct TensorSpec {
  std::vector<std::int64_t> shape;
  at::ScalarType dtype{};
  at::Device device{at::kCPU};
};

// An operation in flight. Keeps its tensors alive.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool done() = 0;
  // Returns when the data have arrived (receive), may be reused (send) or are reduced. `what` names the action that waits, for
  // the message. Throws PeerLost after `deadline` without progress anywhere.
  virtual void wait(Clock::duration deadline, const std::string& what) = 0;
  // After wait() of a receive: what arrived. The receiver may write into it.
  at::Tensor value;
  // After wait(): when it was done (arrived, reduced), where the transport noticed by itself: by the host's clock, or on the
  // device. Else neither is set.
  Clock::time_point completed{};
  DeviceMark landed;
};
using PendingPtr = std::shared_ptr<Pending>;

// Ranks that communicate together; made by every rank of the world in the same order, before the first step.
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
  // This rank among those of its host, and how many these are; threads are all of one.
  virtual int local_rank() const { return rank(); }
  virtual int local_size() const { return size(); }

  virtual PendingPtr send(at::Tensor value, int to, std::uint32_t tag) = 0;
  virtual PendingPtr receive(const TensorSpec& expected, int from, std::uint32_t tag) = 0;

  virtual Group make_group(const std::vector<int>& ranks) = 0;
  // Sums over the group, in place. Calls on one group are in the same order on every member.
  virtual PendingPtr all_reduce(at::Tensor value, const Group& group) = 0;
  // The value of rank `root` (a member, numbered as in the world) to the whole group, in place. Ordered as all_reduce.
  virtual PendingPtr broadcast(at::Tensor value, int root, const Group& group) = 0;
  // `whole` is contiguous and holds a part of each member, in their order and of one size (part_of). In place, ordered as
  // all_reduce. Gathers: each member has filled in its own part, afterwards all have all.
  virtual PendingPtr all_gather(at::Tensor whole, const Group& group) = 0;
  // Sums: afterwards this rank's part is the sum over the group, the others are undefined.
  virtual PendingPtr reduce_scatter(at::Tensor whole, const Group& group) = 0;
  // Rows (along the first dimension) to all members: the first `sent[0]` to the first one, and so on. What arrives is
  // Pending::value: `received[i]` rows of member i, in the order of the members. Both sides know how many; from nobody and to
  // nobody there may be none. An error at the receiver where they differ. The rows stay as they are until wait() is over.
  // Ordered as all_reduce.
  virtual PendingPtr all_to_all(at::Tensor rows, const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received,
                                const Group& group) = 0;

  // Makes now, and uses once, what the first messages between GPUs and the first sums of the groups made so far would make: they
  // are then as fast as the later ones. `ways`: (from, to) of those that this rank sends or takes; every rank calls it, in its
  // own thread, with its device and stream set. Nothing to do where connections are made at the start.
  virtual void connect(const std::vector<std::pair<int, int>>& ways, at::Device device, Clock::duration deadline) {
    static_cast<void>(ways), static_cast<void>(device), static_cast<void>(deadline);
  }
  virtual void barrier(Clock::duration deadline, const std::string& what) = 0;
  // Every rank's bytes, in rank order, on every rank. Small control data.
  virtual std::vector<std::string> all_gather(const std::string& bytes, Clock::duration deadline, const std::string& what) = 0;

  // Returns when `device` has done what this thread's current stream was given; nothing to do on a CPU. To be called before the
  // host reads what a device computes: that read cannot be interrupted, this wait ends as any other.
  virtual void settle(at::Device device, Clock::duration deadline, const std::string& what) = 0;

  // What this rank is about to do, for the messages of other ranks when this one is lost: an action, "writing the checkpoint".
  virtual void doing(const std::string& action) = 0;
  const std::string& action() const { return action_; }  // what doing() was told last

  // Ends the run for everybody: every wait of every rank throws PeerLost with this reason, soon.
  virtual void abort(const std::string& reason) noexcept = 0;

 protected:
  std::string action_;
};

// Part `member` of as many equal ones as there are members: a flat view.
at::Tensor part_of(const at::Tensor& whole, std::size_t member, std::size_t members);
// The place of a rank in its group.
std::size_t member_of(const Group& group, int rank);

// Threads of one process: transport i is for rank i; they share a hub.
std::vector<std::unique_ptr<Transport>> make_local_transports(int size);
// One process per rank. `version` is compared between ranks. Throws MachineError in words: master unreachable, ranks missing, a
// rank started for another world size or with another version. `kill_when_stuck`: a rank that is told of a loss and does not end
// by itself within the deadline ends its process.
struct ProcessOptions {
  World world;
  Clock::duration deadline = std::chrono::seconds(10);
  std::string version;
  bool kill_when_stuck = false;
};
std::unique_ptr<Transport> make_gloo_transport(const ProcessOptions& options);
// Tensors on GPUs over NCCL, everything else as gloo does. MachineError where there is no GPU or no NCCL.
std::unique_ptr<Transport> make_nccl_transport(const ProcessOptions& options);

// Every rank says what it was given (scenario, plan, graph ...: name and hash); InputError on every rank, naming who has what,
// when two differ.
struct Agreement {
  std::string name;   // "scenario"
  std::string value;  // a hash, or short text
};
void agree(Transport& transport, const std::vector<Agreement>& facts, Clock::duration deadline);

}  // namespace panpipe::exec
