// Names the blocks that a replay allocates. Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "costmodel/cost/unit_allocations.hpp"
#include "costmodel/lowering/allocation_history.hpp"
#include "costmodel/lowering/replay_keys.hpp"
#include "schedule/action.hpp"

namespace panpipe {

class AllocationRecorder {
 public:
  // `units`: as the replay runs them. All must outlive the recorder.
  AllocationRecorder(const OperatorGraph& graph, const std::vector<UnitAllocations>& units, AllocationHistory& history);

  std::vector<AllocatorEvent>& events() { return events_; }
  // What runs from now on; without a pass the optimizer, in step 0 what comes before the first.
  void begin(int step, const Action* pass);
  void taken(TensorKey key, std::int64_t bytes);  // after the allocator's events
  void given();
  void given_late(std::int64_t address);  // free for PyTorch, in use for another stream: given() comes later

 private:
  AllocationLabel label_of(TensorKey key, ReplayStream stream) const;
  void name_activation(int tensor, AllocationLabel& label) const;
  std::string parameter(int tensor) const;
  std::string unit(int number) const;
  int number_of(const AllocationLabel& label);

  const OperatorGraph& graph_;
  AllocationHistory& history_;
  std::vector<AllocatorEvent> events_;  // not yet named
  std::unordered_map<int, int> extra_;  // number of what an operator keeps in addition to its results -> operator
  std::vector<bool> kept_;              // by tensor of the graph: for a backward
  int first_extra_ = 0;
  int step_ = 0;
  std::string when_ = "before the first step";
  std::map<AllocationLabel, int> numbers_;
  struct Held {
    std::int64_t asked = 0;
    int label = -1;
  };
  std::unordered_map<std::int64_t, Held> held_;  // by address
};

}  // namespace panpipe
