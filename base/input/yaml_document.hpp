// Parses YAML text into a tree that stores file, line and column of every key and value. Only this file uses yaml-cpp.
//
// Stricter than YAML: a repeated key, an alias, a merge key, a tag, a second document, an empty or binary file and nesting deeper
// than 64 are errors with a place. Scalars stay text; reader.hpp interprets them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace panpipe {

struct SourceText {
  std::string name;       // as shown in messages: the path as the user gave it, or "--set key=value"
  std::string directory;  // relative references start from this folder
  std::vector<std::string> lines;
};

enum class NodeKind { Null, Scalar, Sequence, Map };

struct Node {
  NodeKind kind = NodeKind::Null;
  std::shared_ptr<const SourceText> source;
  int line = 0;      // from 1
  int column = 0;    // from 1
  std::string path;  // "cluster.devices[1].memory"; empty for the root
  std::string text;  // scalars; quoted scalars have `quoted` set
  bool quoted = false;
  bool overridden = false;                   // set by --set
  std::vector<std::shared_ptr<Node>> items;  // sequences
  struct Entry;
  std::vector<Entry> entries;  // maps, in file order

  const Node* find(const std::string& key) const;  // maps; nullptr when absent
};

struct Node::Entry {
  std::string key;
  int line = 0, column = 0;  // of the key
  std::shared_ptr<Node> value;
};

using NodePtr = std::shared_ptr<Node>;

// Parses text. `name` appears in messages. Throws InputError.
NodePtr parse_document(const std::string& text, const std::string& name, const std::string& directory);

// Reads and parses a file. Throws InputError for a missing, unreadable, empty or binary file and for a directory.
NodePtr load_document(const std::string& path);

// Applies one --set KEY=VALUE. KEY is a dotted path, with key[2] for an index into a list. VALUE is YAML flow text: a scalar,
// {map} or [list]. Missing maps on the way are created. Throws InputError for a malformed key or value.
void apply_override(Node& root, const std::string& assignment);

// Renders a diagnostic at a node, or at a key, with source line and caret. `help` may be empty.
Diagnostic diagnostic_at(const Node& node, const std::string& message, const std::string& help = "",
                         std::string_view code = code::kInvalid);
Diagnostic diagnostic_at_key(const Node& map, const std::string& key, const std::string& message, const std::string& help = "",
                             std::string_view code = code::kInvalid);

}  // namespace panpipe
