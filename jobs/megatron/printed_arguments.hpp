// The arguments as Megatron-LM prints them at its start, one a line: "  num_layers ...................................... 24".
#pragma once

#include <string>

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

struct PrintedLine {
  std::string name = {}, value = {};
  int line = 0;  // of the file
};

// The job that was printed, read as the words that a command line would have: True becomes a flag, False and None nothing, a list
// its items; what is printed under another name than it is given by, and what is derived from others, takes the words that mean
// the same. Lines of another form are skipped. Every argument is printed, most of them defaults, so those that the import does
// not know are counted, not listed. `line`: of the text's first line in the file that `name` names, for messages.
ImportedJob import_printed_neox(const std::string& text, const std::string& name, int line, const JobOptions& options);
ImportedJob import_printed_megatron(const std::string& text, const std::string& name, int line, const JobOptions& options);

}  // namespace panpipe::jobs
