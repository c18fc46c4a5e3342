// A communicator of NCCL: its members, a connection for each direction between any two of them, and the order of its operations.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

struct ncclComm {
 public:
  ncclComm(int rank, int size) : rank_(rank), size_(size), to_(static_cast<std::size_t>(size), -1), from_(to_) {}
  int rank() const { return rank_; }
  int size() const { return size_; }
  int device() const { return device_; }
  // Connects all members: returns when all of them have called it, as ncclCommInitRank does.
  bool connect(const ncclUniqueId& id);
  // Ends what waits inside the communicator, now and later.
  void abort() { aborted_ = true; }
  const std::atomic<bool>& aborted() const { return aborted_; }

  // The connection on which data goes to that member, and the one on which it comes. A message the other way on a connection
  // means that the receiver is ready.
  int to(int member) const { return to_.at(static_cast<std::size_t>(member)); }
  int from(int member) const { return from_.at(static_cast<std::size_t>(member)); }

  // Operations of one communicator run one after the other, in the order in which they were posted, on whichever streams.
  std::uint64_t next_turn() { return posted_++; }
  bool wait_for_turn(std::uint64_t turn);
  void end_turn();

 private:
  const int rank_, size_;
  int device_ = 0;
  std::vector<int> to_, from_;
  std::atomic<bool> aborted_{false};
  std::atomic<std::uint64_t> posted_{0};
  std::mutex lock_;
  std::condition_variable turned_;
  std::uint64_t turn_ = 0;
};

namespace panpipe::stand_in {

// An id that members of one communicator share; a thread of this process introduces them to each other.
bool make_unique_id(ncclUniqueId& id);

}  // namespace panpipe::stand_in
