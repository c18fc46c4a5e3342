// Cutting a workload's units into stages.
#pragma once

#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/plan/plan.hpp"

namespace panpipe {

struct PartitionUnit {
  std::string name;
  std::string block;   // units of one block stay together where there are blocks enough; "" = none
  Duration weight{0};  // time of forward and backward, or anything proportional to it
};

// First unit of each stage after the first, balanced; cuts lie between blocks when there are at least as many as stages.
std::vector<int> automatic_cuts(const std::vector<PartitionUnit>& units, int stages);

// Throws InputError when there are not stages - 1.
void check_number_of_cuts(std::size_t cuts, int stages);

// The same as automatic_cuts from names, module paths (the first unit inside) or indices. Throws InputError: unknown name (with a
// suggestion), wrong number, wrong order.
std::vector<int> stated_cuts(const std::vector<PartitionUnit>& units, const std::vector<std::string>& starts, int stages);

}  // namespace panpipe
