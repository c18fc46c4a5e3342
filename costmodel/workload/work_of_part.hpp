#pragma once

#include <vector>

#include "costmodel/workload/operator_cost.hpp"

namespace panpipe {

// count_work of the operators first..end-1 alone, as if the tensors that earlier ones make were given.
std::vector<OperatorWork> count_work(const OperatorGraph& graph, int first, int end);

}  // namespace panpipe
