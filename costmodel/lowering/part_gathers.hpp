// Gathers of parameters, block by block, for the passes of a rank that are laid in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "costmodel/lowering/lowering.hpp"

namespace panpipe {

class PartGathers {
 public:
  // Finds the passes in parts of a rank's row, and the gathers that they wait for, in order.
  PartGathers(Lowering& lowering, int rank, const RankReductions& reductions);

  bool in_parts(std::size_t position) const { return in_parts_[position]; }
  // ZeRO 1 and 2: the first forward of the stage waits for its updated parameters.
  bool wait_for_update(int stage) const;
  // The gather for the part that comes next, once those of parts behind it are requested too. `pass_before` is the task of the
  // last pass but one.
  std::int32_t gather_for_part(std::int32_t pass_before);
  void part_is(std::int32_t task) { gathered_parts_.push_back(task); }

 private:
  struct Coming {
    Action pass;
    std::int32_t flow = -1;
    bool first = false;  // of its pass
    int run = 0;         // of passes in parts with no group between
  };

  bool is_in_parts(const Action& action) const;
  std::size_t in_flight() const;
  std::size_t asked_ahead() const;

  Lowering& lowering_;
  int rank_;
  std::vector<bool> in_parts_;                // per position of the row
  std::vector<Coming> coming_;                // one per part that waits for a gather
  std::vector<std::int32_t> gathers_;         // those of `coming_` that are tasks
  std::vector<std::int32_t> gathered_parts_;  // and the parts for which they came, as far as these are tasks
  std::size_t run_begin_ = 0;                 // of `coming_`: the first of the run under way
  std::vector<int> gathered_first_;           // stages whose first forward waits for updated parameters
};

}  // namespace panpipe
