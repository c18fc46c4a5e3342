// The keys of a config.json that the reader of models does not look up: which of them change what the model computes.
#pragma once

#include <string>
#include <vector>

#include "base/input/yaml_document.hpp"

namespace panpipe {

enum class KeyEffect {
  None,     // on no tensor that a training step computes, or with this value on none
  Changes,  // the class computes something else with this value, and the model here does not
  Unknown,
};

struct UnusedKey {
  KeyEffect effect = KeyEffect::Unknown;
  std::string what;  // Changes: what the class does with it
};

// `type` is the value of "model_type". A null states nothing.
UnusedKey unused_key(const std::string& type, const std::string& key, const Node& value);

// The keys of the tables that concern the type, for suggestions.
std::vector<std::string> unused_keys_of(const std::string& type);

// Kinds of scaled rotary positions that transformers has.
const std::vector<std::string>& rotary_scaling_kinds();
// Keys of `rope_parameters` and `rope_scaling`, of all kinds. Those of `numbers` hold one number each.
const std::vector<std::string>& rotary_keys();
const std::vector<std::string>& rotary_numbers();

}  // namespace panpipe
