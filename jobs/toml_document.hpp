// Parses TOML text into the tree used for YAML and JSON. Only this file uses toml++.
#pragma once

#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe::jobs {

// Throws InputError with the place: not TOML, not UTF-8, empty, more than 1 MiB, or a key of more than 256 bytes including its
// tables. `name` appears in messages.
NodePtr parse_toml(const std::string& text, const std::string& name);

}  // namespace panpipe::jobs
