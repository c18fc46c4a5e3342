// How a step is divided over devices and time. Cost queries take degrees as an argument, so a search may use others than the
// scenario's.
#pragma once

#include <algorithm>
#include <compare>

#include "costmodel/workload/among.hpp"

namespace panpipe {

// The groups of one kind inside a pipeline rank. A position is a device of the rank: replica x tensor degree + tensor index.
// Members lie `stride` positions apart; adjacent groups interleave and fill a block.
struct GroupShape {
  int members = 1, stride = 1;

  int group_of(int position) const { return position / (stride * members) * stride + position % stride; }
  int first_of(int position) const { return position / (stride * members) * (stride * members) + position % stride; }
  int next_of(int position) const {  // in the ring of its group
    const int member = position / stride % members;
    return position + ((member + 1) % members - member) * stride;
  }
};

// The group sizes of a rank.
struct GroupSizes {
  int tensor = 1, replicas = 1, shard = 1, context = 1, expert = 1;
  int expert_tensor = 1;  // ranks that divide an expert's width; 1 or `tensor`

  GroupShape shape(Among among) const {
    switch (among) {
      case Among::Tensor:
        return {tensor, 1};
      case Among::Context:
        return {context, tensor};
      case Among::Expert:
        return {expert, expert_tensor};
      case Among::ExpertData:
        return {replicas * tensor / (expert * expert_tensor), expert * expert_tensor};
      case Among::ShardGroup:
        return {shard, tensor};
      case Among::Holders:
        return {replicas / shard, shard * tensor};
      case Among::Data:
        break;
    }
    return {replicas, tensor};
  }
};

struct Degrees {
  int pipeline = 1, tensor = 1, data = 1;  // ranks along each axis; `data`: replicas with samples of their own
  int virtual_stages = 1;                  // stages per rank
  int zero = 0;                            // 0..3, over the ranks of a shard group
  bool sequence_parallel = false;
  int micro = 1;          // samples per microbatch
  int microbatches = 1;   // per step of one replica
  int shard = 0;          // replicas over which ZeRO divides; 0: all
  int context = 1;        // ranks that share samples, each with a part of the sequence
  int expert = 1;         // neighbouring ranks that divide the experts
  int expert_tensor = 0;  // ranks that divide an expert's width: 1, or 0 = the tensor group

  // Ranks with the same weights; those that share samples are neighbours. Gradients are summed over them, and ZeRO divides over
  // them.
  int replicas() const { return data * context; }
  int devices_of_rank() const { return replicas() * tensor; }
  // Number of neighbouring replicas in a shard group. Every group holds a complete copy.
  int shard_group() const { return shard > 0 ? std::min(shard, replicas()) : replicas(); }
  int expert_tensor_group() const { return expert_tensor > 0 ? expert_tensor : tensor; }
  // True if experts are divided differently from tensor parallelism. expert_holders() is then the number of ranks with the same
  // experts.
  bool experts_apart() const { return expert > 1 || expert_tensor_group() != tensor; }
  int expert_holders() const { return devices_of_rank() / (expert * expert_tensor_group()); }
  // True if ranks with the same weights exchange gradients.
  bool exchanges() const { return replicas() > 1 || (experts_apart() && expert_holders() > 1); }
  GroupSizes groups() const { return {tensor, replicas(), shard_group(), context, expert, expert_tensor_group()}; }
  auto operator<=>(const Degrees&) const = default;
};

// The degrees with the holders of the same experts as replicas. ZeRO divides experts over them, and their gradients are summed.
inline Degrees degrees_of_experts(Degrees degrees) {
  if (!degrees.experts_apart()) return degrees;
  degrees.data = degrees.expert_holders();
  degrees.context = degrees.expert = 1;
  degrees.expert_tensor = 0;
  return degrees;
}

}  // namespace panpipe
