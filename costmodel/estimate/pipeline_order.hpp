// The fast conversion from a schedule of forward and backward passes to a Structure: four bytes per action, one scan over them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "costmodel/estimate/structure.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {

// No table entry assigned yet.
constexpr std::uint32_t kUnset = std::numeric_limits<std::uint32_t>::max();

enum class Pass : std::uint8_t { F, I, W, B };

// (4 stage + pass) << 16 | microbatch. At most 16,384 stages and 65,536 microbatches.
using PackedAction = std::uint32_t;
constexpr PackedAction pack(Pass pass, int stage, int microbatch) {
  return ((static_cast<std::uint32_t>(stage) * 4 + static_cast<std::uint32_t>(pass)) << 16) |
         static_cast<std::uint32_t>(microbatch);
}
constexpr Pass pass_of(PackedAction action) { return static_cast<Pass>((action >> 16) & 3U); }
constexpr int stage_of(PackedAction action) { return static_cast<int>(action >> 18); }
constexpr int microbatch_of(PackedAction action) { return static_cast<int>(action & 0xFFFFU); }

// Table entries of a structure made from a PipelineOrder. A transfer between stages on the same rank costs nothing.
constexpr std::uint32_t cost_entry(Pass pass, int stage) {
  return static_cast<std::uint32_t>(stage) * 4 + static_cast<std::uint32_t>(pass) + 1;
}
constexpr std::uint32_t forward_delay_entry(int producing_stage) { return static_cast<std::uint32_t>(producing_stage) * 2 + 1; }
constexpr std::uint32_t backward_delay_entry(int producing_stage) { return static_cast<std::uint32_t>(producing_stage) * 2 + 2; }

// Entries of groups follow those of all passes.
constexpr std::uint32_t group_entry(int stages, int group) {
  return static_cast<std::uint32_t>(stages) * 4 + 1 + static_cast<std::uint32_t>(group);
}
// Entries of passes as members of a group follow those of the groups.
constexpr std::uint32_t member_entry(int stages, std::size_t groups, Pass pass, int stage) {
  return group_entry(stages, static_cast<int>(groups)) + cost_entry(pass, stage) - 1;
}

// Every member of a group starts with its own input, takes at least its member entry and then gives its output. The rank
// continues when all members have ended, at the earliest the group's entry after it reached the group. No weaving of the members
// is faster, so this is a lower bound.
struct PipelineOrder {
  int stages = 0;
  int microbatches = 0;
  std::vector<int> stage_before, stage_after;  // along the forward path; -1 = none
  std::vector<int> stage_to_rank;
  std::vector<PackedAction> actions;      // of all ranks, one rank after another
  std::vector<std::uint32_t> rank_begin;  // ranks + 1 offsets into actions
  // If there are groups: for each action the size of the group that starts with it (1 = lone, 0 = a later member), and for each
  // action that starts a group its index in `groups`.
  std::vector<std::uint8_t> cell_size;
  std::vector<std::uint16_t> group_of;
  std::vector<std::vector<PackedAction>> groups;  // each kind of group once, as its members with microbatch 0
};

// Throws InputError if the schedule has actions other than F, I, W and B of whole sequences, or is too large to pack.
PipelineOrder pack(const Schedule& schedule);

// Keeps its buffers, so building another structure of at most the same size allocates nothing.
class StructureBuilder {
 public:
  // Returns false if the order cannot finish; explain_deadlock and the estimate give the reason. O(actions).
  bool build(const PipelineOrder& order, Structure& structure);

 private:
  // The columns that an action of a (stage, pass) reads and writes in its microbatch's row of ids_: its input from another stage,
  // its own earlier pass, and its output.
  struct Row {
    std::uint32_t input = 0, own = 0, output = 0;
    std::uint32_t src_mask = 0;  // 0 if the input is made on the same rank: the lane's order implies it
    std::uint16_t delay = 0;
  };
  // A rank's progress: indices into order.actions, and its last task.
  struct Head {
    std::uint32_t next = 0, end = 0, last = 0, rank = 0;
  };
  void prepare(const PipelineOrder& order, Structure& structure);
  // cell_structure.cpp: the same for orders with groups.
  bool build_cells(const PipelineOrder& order, Structure& structure);
  bool cell_is_ready(const PipelineOrder& order, const Head& head, std::uint32_t level_begin) const;
  void emit_cell(const PipelineOrder& order, Head& head, Structure& structure);
  const Row& row_of(PackedAction action) const { return rows_[action >> 16]; }
  std::uint32_t* made_of(PackedAction action) { return ids_.data() + static_cast<std::size_t>(microbatch_of(action)) * width_; }
  const std::uint32_t* made_of(PackedAction action) const {
    return ids_.data() + static_cast<std::size_t>(microbatch_of(action)) * width_;
  }

  std::vector<Row> rows_;
  std::uint32_t width_ = 0;
  std::vector<std::uint32_t> ids_;  // [microbatches][2 stages + 2]: forwards, gradients, always made, never read
  std::vector<Head> heads_;         // of the unfinished ranks
};

}  // namespace panpipe
