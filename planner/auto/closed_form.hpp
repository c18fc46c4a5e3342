// Step time and memory of a configuration without an order of passes, from each rank's work, the time before its first pass and
// the time after its last one. The time is a lower bound of the estimate; most orders reach the memory bound
// (docs/models/plan-auto.md has the equations).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "costmodel/plan/memory_model.hpp"
#include "costmodel/plan/replica_traffic.hpp"
#include "planner/auto/configuration.hpp"
#include "planner/auto/links.hpp"
#include "planner/auto/order_counts.hpp"
#include "planner/auto/unit_sums.hpp"

namespace panpipe::planner {

// The stages of a table placed on ranks: sums per rank for one microbatch.
class PlacedStages {
 public:
  PlacedStages(const Stages& table, const std::vector<TiedParameter>& tied, const MemoryModel& memory, int ranks, int chunks,
               StagePlacement placement);

  struct Rank {
    double fused = 0, split = 0, work = 0;  // seconds per microbatch: F and B; F, I and W; without collectives
    double weight = 0;                      // the longest weight gradient
    double optimizer = 0;                   // measured layers
    HeldParameters held;
    std::int64_t gathered = 0;  // the least over its stages
    std::int64_t buffers = 0;   // of hand-overs of a microbatch
  };
  struct Tied {
    std::int64_t elements = 0;
    int first = 0, last = 0;  // ranks that hold it
  };
  int ranks = 1, chunks = 1;
  StagePlacement placement = StagePlacement::Line;
  std::vector<Rank> rank;
  std::vector<Tied> tied;  // parameters on several ranks
  const Stages& table;

  int stage_of(int r, int chunk) const {
    return placement == StagePlacement::Vee && chunk % 2 == 1 ? (chunk + 1) * ranks - 1 - r : chunk * ranks + r;
  }
  int rank_of(int stage) const {
    return placement == StagePlacement::Vee && stage / ranks % 2 == 1 ? ranks - 1 - stage % ranks : stage % ranks;
  }
  const StageCost& stage(int r, int chunk) const { return table.stages[stage_of(r, chunk)]; }
};

// Bytes and seconds per parameter at a ZeRO stage and a data degree.
struct PerParameter {
  StateBytes state{};                                          // bytes kept
  double reduced = 0;                                          // bytes of a gradient's element that are sent
  double step = 0, step_per_element = 0, step_per_tensor = 0;  // optimizer, seconds: the larger of the last two parts
  double matrix_share = 1;                                     // a rank's least share of the steps of its matrices
  double summed = 0;                                           // seconds of a microbatch: adds a gradient to those before it
  Bytes bucket{0};                                             // 0 = gradients are reduced as a whole, after the passes
  bool overlaps_gathers = false;                               // gathers updated parameters while the forwards that read them run
  int zero = 0, data = 1, shard = 1;                           // data: replicas; shard: replicas of a shard group
  Precision precision = Precision::Fp32;
  ReplicaTraffic traffic;
};
PerParameter per_parameter(const CostModel& model, const Degrees& degrees);

// Facts that all configurations of a search share.
struct SearchFacts {
  bool blocking = false;          // senders wait
  bool count_collectives = true;  // false if passes may run next to the collectives of others
  bool early_gradients = false;   // a full backward sends its result before its last weight gradient
  MemoryModel memory;
  // For a given schedule: the share of a pass's work that is certain (slices of a sequence omit the masked part), and of
  // activations that are certainly held (the schedule may recompute or offload them).
  double stated_work = 1, stated_kept = 1;
  double allocator = 1;
  std::int64_t context = 0, limit = 0;
  std::vector<double> rank_jitter{};  // by length of the pipeline
  std::vector<double> node_jitter{};  // added to rank_jitter, by number of devices in use
  double jitter(int pipeline, std::int64_t devices) const {
    const auto used = std::min(static_cast<std::size_t>(devices), node_jitter.size() - 1);
    return rank_jitter[pipeline] + node_jitter[used];
  }
};

// Hand-overs and reductions of placed stages, for one data degree and numbering of the devices.
class StageTraffic {
 public:
  void prepare(const PlacedStages& placed, const SearchFacts& facts, double jitter, const std::vector<RouteClasses::Hop>& hops,
               HandOvers& times, const Reductions& reductions, const std::array<const PerParameter*, 4>& zeros,
               double tied_time_per_byte);

  // Lower bounds of the step time, one for each prepared ZeRO stage. Without counts of the order, they hold for any order of the
  // family's passes.
  std::array<double, 4> bounds(const FamilyForm& form, int microbatches, const OrderCounts& order) const;

  // Seconds of the hand-over of a stage's output, and of its gradient to the previous stage; 0 within one rank.
  double down(int stage) const { return down_[stage]; }
  double up(int stage) const { return up_[stage]; }
  double closing(int rank, int zero) const { return rank_[rank].closing[zero]; }

 private:
  struct Rank {
    double arrive = 0;  // time before the first forward can start
    // With full and with separate backwards: from the last gradient to the end of that microbatch; to the end of the pipeline
    // and back.
    std::array<double, 2> tail{}, loop{};
    double blocked = 0;                 // per microbatch: waiting for its own sends
    double to_before = 0;               // hand-over of a gradient
    std::array<double, 4> closing{};    // by ZeRO stage, after the last pass
    std::array<double, 4> summing{};    // the same per microbatch, in its backward
    std::array<double, 4> draining{};   // the same from the start of its last backward, next to which buckets may run
    std::array<double, 4> data_lane{};  // per microbatch
  };
  double phases(int microbatches) const;
  double in_flight(const FamilyForm& form, int microbatches, const OrderCounts& order) const;
  double late(const FamilyForm& form, int microbatches, const OrderCounts& order) const;
  double busy(int rank, const FamilyForm& form) const;
  void add_chain(const std::vector<RouteClasses::Hop>& hops, HandOvers& times);
  void add_closing(const Reductions& reductions, const PerParameter& per, double tied_time_per_byte);

  const PlacedStages* placed_ = nullptr;
  const SearchFacts* facts_ = nullptr;
  double jitter_ = 1;
  std::vector<Rank> rank_;
  std::vector<double> down_, up_;
  double fill_forward_ = 0, fill_backward_ = 0, slowest_forward_ = 0, slowest_backward_ = 0;
};

// Peak of activations and temporaries per rank, at given moments of the order. Zero without counts of the order.
void activation_peaks(const PlacedStages& placed, const OrderCounts& order, std::vector<double>& peaks);
struct RankMemories {
  double largest = 0, mean = 0;  // over the ranks, bytes
};
RankMemories memory_peaks(const PlacedStages& placed, const SearchFacts& facts, const PerParameter& per,
                          const std::vector<double>& activations, int microbatches);

}  // namespace panpipe::planner
