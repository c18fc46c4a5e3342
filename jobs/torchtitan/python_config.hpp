// Configurations of torchtitan in Python (release 0.3 and later), as far as they can be read without running them: a function
// that takes a configuration of torchtitan's registry, assigns literals to parts of it, and returns it.
#pragma once

#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe::jobs {

// True if the text has a line that Python has and TOML has not.
bool is_python(const std::string& text);

// Keys as in TOML, "parallelism.tensor_parallel_degree": those of the shipped configuration, and over them those of the file.
// Throws InputError with the place of any other statement.
NodePtr read_python_config(const std::string& text, const std::string& name);

}  // namespace panpipe::jobs
