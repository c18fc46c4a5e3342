// The arguments of Megatron-LM that no scenario has a key for. A trailing `*` stands for any rest.
#pragma once

#include <string>
#include <vector>

namespace panpipe::jobs {

// They do not move a step: data, paths, logging, numbers of the optimizer, seeds.
const std::vector<std::string>& megatron_arguments_without_effect();

// They move a step, and predictions do not know them.
const std::vector<std::string>& megatron_arguments_not_modelled();

}  // namespace panpipe::jobs
