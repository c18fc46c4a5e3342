// A value that may be stored in another file: `x.yaml`, or `{file: x.yaml, key: replacement, ...}`.
#pragma once

#include <map>
#include <string>

#include "base/input/reader.hpp"
#include "base/input/yaml_document.hpp"

namespace panpipe {

// The kind of document that a reference points to.
struct ReferenceKind {
  std::string kind;    // "cluster": the file's `kind:` must have this value
  std::string folder;  // searched for shipped files: "clusters"
};

// Finds the file of a bare name or a path, starting from the folder of the referring file. Names are compared without case, "-"
// and "_". Throws InputError at `at`, listing the shipped files.
std::string resolve_reference(const std::string& reference, const ReferenceKind& kind, const Node& at);

// Returns the tree with every file reference replaced by the file's content. Keys next to `file:` override it (maps merge, other
// values are replaced), and paths are relative to the node ("cluster.nodes"). Files may refer to files. Throws InputError.
NodePtr expand_reference(const Node& node, const ReferenceKind& kind);

// Reads `sources:` of the reader's map: dotted key -> text. A key that does not exist in the tree is an error.
std::map<std::string, std::string> read_sources(MapReader& reader);

}  // namespace panpipe
