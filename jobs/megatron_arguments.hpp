// Megatron-LM's arguments without a scenario key. A trailing `*` matches any rest.
#pragma once

#include <string>
#include <vector>

namespace panpipe::jobs {

// Arguments that do not affect a step: data, paths, logging, numbers of the optimizer, seeds.
const std::vector<std::string>& megatron_arguments_without_effect();

// Arguments that affect a step but are not modelled.
const std::vector<std::string>& megatron_arguments_not_modelled();

}  // namespace panpipe::jobs
