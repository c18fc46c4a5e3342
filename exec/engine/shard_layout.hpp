// The division of parameters under ZeRO 2 and 3 over the ranks of a shard group: which ones share a buffer, and which rank holds
// which part. Every rank computes the same layout from the graph and the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/workload/graph.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// Consecutive parameters of one type, of which each member of the shard group holds an equal part. All of them have the same
// users, on this rank and on others.
struct FlatParameters {
  struct Entry {
    int root = 0;                          // graph tensor
    std::int64_t first = 0, elements = 0;  // within the whole buffer
  };
  std::vector<Entry> entries;
  std::int64_t part = 0;  // elements of a member's part; padding lies between entries and after the last
  bool trained = true;
  // Each is read by only one operator, so a backward adds its gradient all at once.
  bool once = true;
};

// A unit of gathers and reductions: under ZeRO 3 a GatheredRange, under ZeRO 2 a stage.
struct FlatGroup {
  int stage = 0;
  std::vector<std::size_t> flats;  // in the order in which a backward completes their gradients
  std::vector<bool> reports;       // per flat: shown in timelines as one bucket, together with preceding ones that are not
};

struct ShardLayout {
  int zero = 0;      // 2 or 3
  int members = 1;   // of a shard group
  struct Position {  // of the pipeline
    std::vector<FlatParameters> flats;
    std::map<int, FlatGroup> groups;  // by number of the GatheredRange or the stage
  };
  std::vector<Position> positions;

  // Number of a parameter's elements in each member's part at a position of the pipeline, in member order; empty if it is not
  // divided.
  std::vector<std::int64_t> pieces(int position, int root) const;
};

// True if parameters are divided: ZeRO 2 or 3 with more than one rank in a shard group.
inline bool divides_parameters(const Plan& plan) { return plan.zero >= 2 && plan.shard_group() > 1; }

// `masters`: gradients of 2-byte parameters are summed in fp32. `bucket_bytes`: size of ZeRO 2's gradient buckets.
ShardLayout make_shard_layout(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, bool masters,
                              std::int64_t bucket_bytes);

}  // namespace panpipe::exec
