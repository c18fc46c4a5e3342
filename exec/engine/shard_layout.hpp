// How ZeRO 2 and 3 divide parameters over the ranks of a shard group: what lies together and who holds which part. Computed alike
// on every rank from the graph and the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/workload/graph.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// Parameters of one type, one behind another; each member of the shard group holds an equal part. Who uses them, on this rank and
// on others, is the same for all of them.
struct FlatParameters {
  struct Entry {
    int root = 0;                          // graph tensor
    std::int64_t first = 0, elements = 0;  // in the whole
  };
  std::vector<Entry> entries;
  std::int64_t part = 0;  // elements of a member's; between entries, and behind the last, lies what belongs to none
  bool trained = true;
  // One operator reads each of them: what a backward adds comes at once.
  bool once = true;
};

// What is gathered and reduced together: under ZeRO 3 a GatheredRange, under ZeRO 2 a stage.
struct FlatGroup {
  int stage = 0;
  std::vector<std::size_t> flats;  // in the order in which a backward completes their gradients
  std::vector<bool> tells;         // of each: told in timelines, with those before it that are not, as one bucket
};

struct ShardLayout {
  int zero = 0;      // 2 or 3
  int members = 1;   // of a shard group
  struct Position {  // of the pipeline
    std::vector<FlatParameters> flats;
    std::map<int, FlatGroup> groups;  // by number: of the GatheredRange, of the stage
  };
  std::vector<Position> positions;

  // Where a parameter lies on a position; null where it is not divided.
  const FlatParameters* flat_of(int position, int root, FlatParameters::Entry* entry) const;
  // How many elements of it each member holds, in their order; none where it is not divided.
  std::vector<std::int64_t> pieces(int position, int root) const;
};

// Whether parameters are divided at all: more than one rank in a shard group, ZeRO 2 or 3.
inline bool divides_parameters(const Plan& plan) { return plan.zero >= 2 && plan.shard_group() > 1; }

// `masters`: gradients of 2-byte parameters are summed in fp32. Gradients of ZeRO 2 travel in buckets of this size.
ShardLayout make_shard_layout(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, bool masters,
                              std::int64_t bucket_bytes);

}  // namespace panpipe::exec
