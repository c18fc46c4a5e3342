// The exchanges of a rank's replicas: which collectives, over which groups, of how many bytes. The lowering prices these on the
// groups' devices, searches on the way that replicas lie.
#pragma once

#include <array>
#include <cstdint>

#include "costmodel/cost/zero_and_optimizer.hpp"

namespace panpipe {

// Consecutive exchanges: `whole` pieces of one size, and a remainder.
struct Pieces {
  std::int64_t whole = 0;
  Bytes rest{0};
  bool empty() const { return whole == 0 && rest <= Bytes(0); }
};

inline Pieces cut(Bytes all, Bytes size) { return {all.base() / size.base(), Bytes(all.base() % size.base())}; }

struct Exchanged {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Among among = Among::Data;
  Pieces pieces;
  Bytes size{0};  // of a whole piece
};

// One after another; those without bytes do not take place. Experts that replicas divide have fewer holders, among which theirs
// are exchanged after the others.
class ReplicaTraffic {
 public:
  ReplicaTraffic(const Framework& framework, const Degrees& degrees)
      : zero_(zero_in_effect(framework, degrees)),
        shards_(degrees.shard_group()),
        in_shard_groups_(zero_ > 0 && degrees.shard_group() < degrees.replicas()),
        experts_apart_(degrees.experts_apart()) {}

  // Groups inside which parameters and gradients are divided.
  Among inside() const { return in_shard_groups_ ? Among::ShardGroup : Among::Data; }
  bool in_shard_groups() const { return in_shard_groups_; }
  bool experts_apart() const { return experts_apart_; }

  // Gradients: in a shard group first, then each shard among its holders.
  std::array<Exchanged, 3> reduction(const Pieces& others, const Pieces& experts, Bytes size) const {
    const CollectiveKind kind = zero_ >= 1 ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
    std::array<Exchanged, 3> all{{{kind, inside(), others, size}, {}, {}}};
    const auto shard = [&](Bytes bytes) { return Bytes((bytes.base() + shards_ - 1) / shards_); };
    if (in_shard_groups_) all[1] = {CollectiveKind::AllReduce, Among::Holders, {others.whole, shard(others.rest)}, shard(size)};
    if (experts_apart_) all[2] = {kind, Among::ExpertData, experts, size};
    return all;
  }
  // Parameters.
  std::array<Exchanged, 2> gather(Bytes others, Bytes experts) const {
    std::array<Exchanged, 2> all{{{CollectiveKind::AllGather, inside(), {0, others}, Bytes(0)}, {}}};
    if (experts_apart_) all[1] = {CollectiveKind::AllGather, Among::ExpertData, {0, experts}, Bytes(0)};
    return all;
  }

 private:
  int zero_;
  std::int64_t shards_;
  bool in_shard_groups_, experts_apart_;
};

}  // namespace panpipe
