// Arguments of Megatron-LM's functional tests: a YAML file whose map MODEL_ARGS has them as keys ("--num-layers: 12").
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jobs/shell/shell_words.hpp"

namespace panpipe::jobs {

// Their words, with places. `${NAME}` has the value in `defines`, or is not known. Empty: the text is no such file.
std::vector<ShellWord> yaml_arguments(const std::string& text, const std::string& name,
                                      const std::map<std::string, std::string>& defines);

}  // namespace panpipe::jobs
