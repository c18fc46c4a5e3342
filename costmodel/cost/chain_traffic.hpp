// Chains of element-wise operators that run as one kernel. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cost/unit_view.hpp"

namespace panpipe {

bool is_sum(const Operator& op);

// Element-wise operators of one chain run as one kernel: it reads what comes from outside and writes what is used outside.
class Chains {
 public:
  explicit Chains(const UnitView& unit);
  int find(int i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }

 private:
  std::vector<int> parent_;
};

// False if t was seen before.
bool add_once(std::vector<int>& seen, int t);

struct ChainTraffic {
  std::vector<int> read, gradient_of_output, needed_in_backward, gradient_of_input;
  double forward = 0, backward = 0;
};

// Adds what operator i, a member, moves between the chain and the outside.
void visit_member(const UnitView& unit, const Chains& chains, int chain, int i, ChainTraffic& traffic);

}  // namespace panpipe
