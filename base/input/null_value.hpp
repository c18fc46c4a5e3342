// Recognises a value that a file states as null.
#pragma once

#include "base/input/yaml_document.hpp"

namespace panpipe {

// No text after the key, `~`, or the unquoted word null (YAML 1.2's core schema; JSON has only the word).
inline bool is_null(const Node& node) {
  return node.kind == NodeKind::Null || (node.kind == NodeKind::Scalar && !node.quoted &&
                                         (node.text == "null" || node.text == "Null" || node.text == "NULL" || node.text == "~"));
}

}  // namespace panpipe
