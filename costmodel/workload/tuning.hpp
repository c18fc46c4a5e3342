// The trained parameters of a model: frozen parameters and LoRA.
#pragma once

#include <string>

#include "base/input/reader.hpp"
#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {

// Reads `lora: {rank, alpha, targets, dropout, base}` and `frozen: [...]` of a workload.
Tuning read_tuning(MapReader& workload);

bool is_trained(const Tuning& tuning, const std::string& parameter);
// True if the product of this module has LoRA factors next to its weight. `in_block`: it belongs to a transformer block.
bool has_adapter(const Tuning& tuning, const std::string& module, bool in_block);

// True of a factor's product and its dropout.
bool is_of_adapter(const Operator& op);

// Throws InputError if a target or a pattern matches nothing in the model, or if nothing is left to train.
void check_tuning(const Tuning& tuning, const OperatorGraph& graph);

}  // namespace panpipe
