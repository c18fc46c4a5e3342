// NCCL's communicators of a rank, made when they are first used, and what NCCL asks of the library, of the GPU and of tensors.
// For the module that is linked with CUDA.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

using NcclPtr = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;

class GlooTransport;

class NcclCommunicators {
 public:
  using Store = std::function<c10::intrusive_ptr<c10d::Store>()>;  // a new connection to the store of the rendezvous
  NcclCommunicators(int rank, Store store) : rank_(rank), store_(std::move(store)) {}

  // Of one direction; the sender is its rank 0. From any thread.
  NcclPtr of_pair(int from, int to);
  // Of a group that all its members ask for.
  bool has(const Group& group) const { return groups_.count(group.id) > 0; }
  NcclPtr of_group(const Group& group);

 private:
  NcclPtr make(const std::string& name, int place, int count, bool pair) const;

  int rank_;
  Store store_;
  std::mutex lock_;
  std::map<std::pair<int, int>, NcclPtr> pairs_;
  std::map<int, NcclPtr> groups_;
};

// Throws MachineError if the NCCL that is loaded does not fit the headers that this was compiled with.
void check_nccl();
// Throws MachineError on every rank if two of them have the same GPU.
void check_own_gpu(GlooTransport& transport, int device, Clock::duration deadline);

// The same memory as bytes: NCCL lacks some of LibTorch's types.
at::Tensor as_bytes(const at::Tensor& value);
// The same, of memory that CUDA's allocator does not take for its own. Otherwise c10d binds a received tensor to NCCL's stream,
// and its memory comes back only when the next receive on that stream has ended. The operation keeps the tensor alive, and
// the waiter binds the tensor to the stream that computes.
at::Tensor lent_bytes(const at::Tensor& value);
// Types that NCCL sums as they are; the others go by way of the host.
bool nccl_sums(at::ScalarType type);

}  // namespace panpipe::exec
