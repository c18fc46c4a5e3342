#include "costmodel/cluster/value_or_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/input/cached_document.hpp"
#include "base/input/shipped.hpp"
#include "base/text/did_you_mean.hpp"

namespace panpipe {
namespace {

constexpr int kDeepestReference = 8;  // files that refer to files; deeper is a circle

std::string folded(const std::string& name) {
  std::string result;
  for (const char c : name)
    if (c != '-' && c != '_') result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

NodePtr copy_with_prefix(const Node& node, const std::string& prefix) {
  auto copy = std::make_shared<Node>(node);
  if (!prefix.empty()) copy->path = node.path.empty() ? prefix : fmt::format("{}.{}", prefix, node.path);
  for (NodePtr& item : copy->items) item = copy_with_prefix(*item, prefix);
  for (Node::Entry& entry : copy->entries) entry.value = copy_with_prefix(*entry.value, prefix);
  return copy;
}

// A reference to a file as a map that keys can be laid over: x.yaml -> {file: x.yaml}.
NodePtr as_map(const NodePtr& reference) {
  auto map = std::make_shared<Node>(*reference);
  auto file = std::make_shared<Node>(*reference);
  file->path = reference->path + ".file";
  map->kind = NodeKind::Map;
  map->text.clear();
  map->entries = {Node::Entry{"file", reference->line, reference->column, std::move(file)}};
  return map;
}

// Lays the entries of `over` on `base`, in place. Keys of a device lie over the file that the base names for it.
void lay_over(Node& base, const Node& over) {
  for (const Node::Entry& entry : over.entries) {
    if (entry.key == "file") continue;
    const auto same = std::find_if(base.entries.begin(), base.entries.end(),
                                   [&](const Node::Entry& candidate) { return candidate.key == entry.key; });
    if (same == base.entries.end()) {
      base.entries.push_back(entry);
      continue;
    }
    const bool keys = entry.value->kind == NodeKind::Map && !entry.value->find("file");
    if (keys && entry.key == "device" && same->value->kind == NodeKind::Scalar) same->value = as_map(same->value);
    if (keys && same->value->kind == NodeKind::Map)
      lay_over(*same->value, *entry.value);
    else
      same->value = entry.value;
  }
}

NodePtr expand(const Node& node, const ReferenceKind& kind, int depth) {
  if (node.kind != NodeKind::Scalar && (node.kind != NodeKind::Map || !node.find("file"))) return std::make_shared<Node>(node);
  const Node& reference = node.kind == NodeKind::Scalar ? node : *node.find("file");
  if (reference.kind != NodeKind::Scalar)
    throw InputError({diagnostic_at(reference, fmt::format("expected the name of a {} file", kind.kind))});
  if (depth == kDeepestReference)
    throw InputError({diagnostic_at(reference, fmt::format("{} files refer to each other in a circle", kind.kind))});
  const std::shared_ptr<const Node> file = cached_document(resolve_reference(reference.text, kind, reference));
  const NodePtr whole = expand(*file, kind, depth + 1);
  if (whole->kind != NodeKind::Map)
    throw InputError({diagnostic_at(*whole, fmt::format("expected a {} file: a map of keys", kind.kind))});
  NodePtr result = copy_with_prefix(*whole, node.path);
  if (node.kind == NodeKind::Map) lay_over(*result, node);
  return result;
}

bool names_something(const Node& root, const std::string& dotted) {
  const Node* node = &root;
  std::size_t start = 0;
  while (start <= dotted.size()) {
    const std::size_t end = std::min(dotted.find('.', start), dotted.size());
    if (node->kind != NodeKind::Map) return false;
    node = node->find(dotted.substr(start, end - start));
    if (!node) return false;
    start = end + 1;
  }
  return true;
}

}  // namespace

std::string resolve_reference(const std::string& reference, const ReferenceKind& kind, const Node& at) {
  const std::string directory = at.source ? at.source->directory : "";
  if (const auto file = find_file(reference, directory)) return *file;
  for (const char* suffix : {"", ".yaml"})
    if (const auto file = find_file(fmt::format("{}/{}{}", kind.folder, reference, suffix), directory)) return *file;
  const std::vector<std::string> names = shipped_names(kind.folder);
  std::string bare = std::filesystem::path(reference).filename().string();
  if (bare.ends_with(".yaml")) bare.resize(bare.size() - 5);
  if (reference.find('/') == std::string::npos)
    for (const std::string& name : names)
      if (folded(name) == folded(bare)) return fmt::format("{}/{}/{}.yaml", data_directory(), kind.folder, name);
  const auto near = nearest_name(bare, names);
  const std::string help =
      near ? did_you_mean(fmt::format("{}/{}.yaml", kind.folder, *near))
           : (names.empty() ? "give a file; of shipped ones there are " : "give a file, or one that is shipped: ") +
                 shipped_list(kind.folder);
  throw InputError({diagnostic_at(at, fmt::format("no {} file '{}'", kind.kind, reference), help, code::kNoFile)});
}

NodePtr expand_reference(const Node& node, const ReferenceKind& kind) { return expand(node, kind, 0); }

std::map<std::string, std::string> read_sources(MapReader& reader) {
  std::map<std::string, std::string> result;
  const Node* sources = reader.find("sources");
  if (!sources) return result;
  if (sources->kind != NodeKind::Map) {
    reader.log().error(*sources, "expected a map: key -> where its number comes from");
    return result;
  }
  for (const Node::Entry& entry : sources->entries) {
    if (!names_something(reader.node(), entry.key))
      reader.log().error_at_key(*sources, entry.key, fmt::format("a source for '{}', which this file does not have", entry.key));
    else if (const auto text = read_string(*entry.value, reader.log()))
      result[entry.key] = *text;
  }
  return result;
}

}  // namespace panpipe
