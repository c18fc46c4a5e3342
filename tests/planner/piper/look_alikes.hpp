// Problems of the size and shape of the published inputs, which may not be copied: made from sizes and rates alone.
#pragma once

#include "planner/piper/planning_problem.hpp"

namespace panpipe::planner::piper {

// A chain of transformer layers between an embedding and a head, with a mask that feeds every layer; degrees 1, 2, 4, 8.
PlanningProblem bert_like(int layers, int devices, int microbatches, double memory);
// Bottleneck blocks with shortcuts: 177 layers, 192 edges.
PlanningProblem resnet_like(int devices, int microbatches, double memory);
// Branches side by side, as the layers of an encoder and a decoder are: 78 layers, about 18,000 ways to cut in two.
PlanningProblem gnmt_like(int devices, int microbatches, double memory);

}  // namespace panpipe::planner::piper
