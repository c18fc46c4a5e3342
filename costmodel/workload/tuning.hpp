// Which parameters of a model are trained: frozen ones, LoRA.
#pragma once

#include <string>

#include "base/input/reader.hpp"
#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {

// `lora: {rank, alpha, targets, quantized}` and `frozen: [...]` of a workload.
Tuning read_tuning(MapReader& workload);

bool is_trained(const Tuning& tuning, const std::string& parameter);
// Has the product of this module factors beside its weight? `in_block`: it is one of a transformer block.
bool has_adapter(const Tuning& tuning, const std::string& module, bool in_block);

// Throws InputError where a target or a pattern names nothing of the model, or nothing is left to train.
void check_tuning(const Tuning& tuning, const OperatorGraph& graph);

}  // namespace panpipe
