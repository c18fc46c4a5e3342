// Does a file say that there is no value?
#pragma once

#include "base/input/yaml_document.hpp"

namespace panpipe {

// Nothing behind the key, `~`, or the word null without quotes (YAML 1.2's core schema; JSON has the word alone).
inline bool is_null(const Node& node) {
  return node.kind == NodeKind::Null || (node.kind == NodeKind::Scalar && !node.quoted &&
                                         (node.text == "null" || node.text == "Null" || node.text == "NULL" || node.text == "~"));
}

}  // namespace panpipe
