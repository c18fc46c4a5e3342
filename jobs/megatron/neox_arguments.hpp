// The arguments that GPT-NeoX prints, in the words of Megatron-LM's.
#pragma once

#include <string>
#include <vector>

#include "jobs/megatron/printed_arguments.hpp"

namespace panpipe::jobs {

// "  pipe_parallel_size .... 2.........updated" as pipeline_model_parallel_size, 2. Arguments that no step depends on, and other
// lines, are left out. `line`: of the text's first line.
std::vector<PrintedLine> megatron_lines_of_neox(const std::string& printed, int line);

}  // namespace panpipe::jobs
