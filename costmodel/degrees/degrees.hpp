// How a step is divided over devices and time: the one type for it. Scenario, plan, searches, graph, tasks and results hold it,
// and cost queries take it as an argument, so that a search may use others than the scenario's.
//
// A number is a degree if it decides who holds or computes what: ranks along an axis, ranks that divide a part of the model or of
// its state (expert, expert_tensor, shard, with ZeRO's stage), whether tensor ranks divide the sequence, stages per rank, and the
// batch. How ranks exchange what they divided (the scenario's context_exchange, the framework's collectives) is a setting of the
// scenario. The keys of `parallel:` are the table in axes.hpp; what may stand together is in check_degrees.hpp.
#pragma once

#include <algorithm>
#include <compare>

#include "costmodel/degrees/among.hpp"

namespace panpipe {

// The groups of one kind inside a pipeline rank. A position is a device of the rank: replica x tensor degree + tensor index.
// Members lie `stride` positions apart; adjacent groups interleave and fill a block.
struct GroupShape {
  int members = 1, stride = 1;
  bool operator==(const GroupShape&) const = default;

  int group_of(int position) const { return position / (stride * members) * stride + position % stride; }
  int first_of(int position) const { return position / (stride * members) * (stride * members) + position % stride; }
  int next_of(int position) const {  // in the ring of its group
    const int member = position / stride % members;
    return position + ((member + 1) % members - member) * stride;
  }
};

// Searches prefer, of equally fast plans, the one that compares less: the order of the members matters.
struct Degrees {
  int tensor = 1, pipeline = 1, data = 1;  // ranks along each axis; `data`: replicas with samples of their own
  int micro = 1;                           // samples per microbatch
  int microbatches = 1;                    // per step of one replica
  int virtual_stages = 1;                  // stages per rank
  int zero = 0;                            // 0..3, over the ranks of a shard group
  int context = 1;                         // ranks that share samples, each with a part of the sequence
  int expert = 1;                          // neighbouring ranks that divide the experts
  int expert_tensor = 0;                   // ranks that divide an expert's width: 1, or 0 = the tensor group
  int shard = 0;                           // replicas over which ZeRO divides; 0: all
  bool sequence_parallel = false;          // tensor ranks divide the sequence where they do not divide weights

  // Ranks with the same weights; those that share samples are neighbours. Gradients are summed over them, and ZeRO divides over
  // them.
  int replicas() const { return data * context; }
  int devices_of_rank() const { return replicas() * tensor; }
  int device_count() const { return pipeline * devices_of_rank(); }
  // Number of neighbouring replicas in a shard group. Every group holds a complete copy.
  int shard_group() const { return shard > 0 ? std::min(shard, replicas()) : replicas(); }
  int expert_tensor_group() const { return expert_tensor > 0 ? expert_tensor : tensor; }
  // True if experts are divided differently from tensor parallelism. expert_holders() is then the number of ranks with the same
  // experts.
  bool experts_apart() const { return expert > 1 || expert_tensor_group() != tensor; }
  int expert_holders() const { return devices_of_rank() / (expert * expert_tensor_group()); }
  // True if ranks with the same weights exchange gradients.
  bool exchanges() const { return replicas() > 1 || (experts_apart() && expert_holders() > 1); }

  // The only place that knows which ranks make a group.
  GroupShape group(Among among) const {
    const int width = expert_tensor_group();
    switch (among) {
      case Among::Tensor:
        return {tensor, 1};
      case Among::Context:
        return {context, tensor};
      case Among::Expert:
        return {expert, width};
      case Among::ExpertData:
        return {expert_holders(), expert * width};
      case Among::ShardGroup:
        return {shard_group(), tensor};
      case Among::Holders:
        return {replicas() / shard_group(), shard_group() * tensor};
      case Among::Data:
        break;
    }
    return {replicas(), tensor};
  }

  // The degrees that shape the graph of a device; the others are those of one device.
  Degrees of_graph() const {
    Degrees shape = *this;
    shape.pipeline = shape.data = shape.microbatches = shape.virtual_stages = 1;
    shape.zero = shape.shard = 0;
    return shape;
  }

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
