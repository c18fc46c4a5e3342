// A value that may stand in another file: `x.yaml`, or `{file: x.yaml, key: replacement, ...}`.
#pragma once

#include <map>
#include <string>

#include "base/input/reader.hpp"
#include "base/input/yaml_document.hpp"

namespace panpipe {

// Which kind of document a reference leads to.
struct ReferenceKind {
  std::string kind;    // "cluster": the folder clusters/ is searched, and the file's `kind:` must say so
  std::string folder;  // "clusters"
};

// Finds the file of a bare name or a path, starting from the folder of the file that names it; names are compared without
// regard to case, "-" and "_". Throws InputError at `at`, naming the shipped files.
std::string resolve_reference(const std::string& reference, const ReferenceKind& kind, const Node& at);

// The tree with every reference to a file replaced by the file's content, the keys beside `file:` laid over it (maps merge,
// all else is replaced), and paths as seen from the node ("cluster.nodes"). Files may refer to files. Throws InputError.
NodePtr expand_reference(const Node& node, const ReferenceKind& kind);

// Reads and checks `panpipe` and `kind`, which a tree written in place may leave out, and skips `description` and `source`.
void read_heading(MapReader& reader, const ReferenceKind& kind);

// `sources:` of the reader's map: dotted key -> text. A key that names nothing in the tree is an error.
std::map<std::string, std::string> read_sources(MapReader& reader);

}  // namespace panpipe
