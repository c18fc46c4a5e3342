// What is shipped about other trainers: scenarios/trainers/NAME.yaml.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/input/yaml_document.hpp"
#include "jobs/shell/arguments.hpp"

namespace panpipe::jobs {

// Keys or arguments of a trainer that no key of a scenario holds; a trailing `*` matches any rest.
struct UnreadKeys {
  std::vector<std::string> not_modelled;    // what affects a step
  std::vector<std::string> without_effect;  // data, paths, logging, numbers of the optimizer, seeds
};

UnreadKeys unread_keys(const std::string& trainer);
// Of a trainer with a command line; `without_effect` as of unread_keys.
ArgumentForms argument_forms(const std::string& trainer);

// A value as YAML flow text: "{name: adamw, lr: 0.1}".
std::string flow_text(const Node& node);

}  // namespace panpipe::jobs
