// TOML text -> the tree that YAML and JSON are read into. The only place that knows toml++.
#pragma once

#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe::jobs {

// Throws InputError with the place: not TOML, not UTF-8, empty, more than 1 MiB, a key of more than 256 bytes
// with its tables. `name` appears in messages.
NodePtr parse_toml(const std::string& text, const std::string& name);

}  // namespace panpipe::jobs
