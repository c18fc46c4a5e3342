// The arguments as Megatron-LM prints them at its start, one a line: "  num_layers ...................................... 24".
#pragma once

#include <string>

#include "jobs/job_options.hpp"
#include "jobs/shell/arguments.hpp"

namespace panpipe::jobs {

// As the words that a command line would have: True becomes a flag, False and None nothing, a list its items; what is printed
// under another name than it is given by, and what is derived from others, takes the words that mean the same. Lines of another
// form are skipped. `line`: of the text's first line in the file that `name` names, for messages.
Arguments printed_arguments(const std::string& text, const std::string& name, int line);

// The job that was printed. Every argument is printed, most of them defaults, so those that the import does not know are counted,
// not listed.
ImportedJob import_printed_neox(const std::string& text, const std::string& name, int line, const JobOptions& options);
ImportedJob import_printed_megatron(const std::string& text, const std::string& name, int line, const JobOptions& options);

}  // namespace panpipe::jobs
