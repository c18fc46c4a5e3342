// Divides a workload's units into stages.
#pragma once

#include <string>
#include <vector>

#include "base/quantity.hpp"

namespace panpipe {

struct PartitionUnit {
  std::string name;
  std::string block;   // units of one block stay together if there are enough blocks; "" = none
  Duration weight{0};  // time of forward and backward, or any proportional number
};

// The first unit of each stage after the first, balanced. Cuts lie between blocks if there are at least as many blocks as stages.
std::vector<int> automatic_cuts(const std::vector<PartitionUnit>& units, int stages);

// Throws InputError unless there are stages - 1 cuts.
void check_number_of_cuts(std::size_t cuts, int stages);

// Like automatic_cuts, but from names, module paths (the first unit inside) or indices. Throws InputError for an unknown name
// (with a suggestion), a wrong number of cuts, or a wrong order.
std::vector<int> stated_cuts(const std::vector<PartitionUnit>& units, const std::vector<std::string>& starts, int stages);

}  // namespace panpipe
