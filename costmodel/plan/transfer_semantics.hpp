// What a pipeline transfer holds up in a step: what the scenario says, else what the framework does.
#pragma once

#include <string_view>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// `measured`: the costs are the executor's, which does not block.
TransferRules::Semantics transfer_semantics(const Scenario& scenario, bool measured);
std::string_view name_of(TransferRules::Semantics semantics);  // "asynchronous", "blocking", "batched"

}  // namespace panpipe
