// The arguments that GPT-NeoX prints, in the words of Megatron-LM's.
#pragma once

#include <string>

namespace panpipe::jobs {

// "  pipe_parallel_size .... 2.........updated" as "  pipeline_model_parallel_size ... 2", line by line. Other lines are left
// empty, so that places stay. Arguments that no step depends on are left out.
std::string megatron_words_of_neox(const std::string& printed);

}  // namespace panpipe::jobs
