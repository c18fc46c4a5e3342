#include "costmodel/profile/sourced_file.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/input/cached_document.hpp"
#include "base/input/shipped.hpp"
#include "base/text/did_you_mean.hpp"

namespace panpipe {
namespace {

bool looks_like_a_path(const std::string& text) {
  return text.find('/') != std::string::npos || (text.size() > 5 && text.compare(text.size() - 5, 5, ".yaml") == 0);
}

std::string resolve(const std::string& kind, const std::string& name_or_path, const std::string& directory) {
  if (looks_like_a_path(name_or_path)) {
    if (auto found = find_file(name_or_path, directory)) return *found;
    throw InputError(fmt::format("{} file '{}' does not exist", kind, name_or_path), "", code::kNoFile);
  }
  const std::string path = fmt::format("{}/{}s/{}.yaml", data_directory(), kind, name_or_path);
  if (!name_or_path.empty() && std::filesystem::exists(path)) return path;
  const std::string all = "; there are " + shipped_list(kind + "s");
  throw InputError(fmt::format("no {} '{}'{}", kind, name_or_path, suggestion(name_or_path, shipped_names(kind + "s"), all)), "",
                   code::kUnknownName);
}

// The map with the numbers: the whole file, or `calibration:` of a device's file.
const Node& numbers_of(const Node& root, const std::string& kind) {
  const Node* of = root.kind == NodeKind::Map ? root.find("kind") : nullptr;
  const Node* inside = of != nullptr && of->text == "device" ? root.find(kind) : nullptr;
  return inside != nullptr && inside->kind == NodeKind::Map ? *inside : root;
}

}  // namespace

SourcedFile::SourcedFile(const std::string& kind, const std::string& name_or_path, const std::string& directory)
    : root_(cached_document(resolve(kind, name_or_path, directory))), reader_(numbers_of(*root_, kind), log_) {
  if (&reader_.node() == root_.get()) read_heading(reader_, kind);
}

std::string SourcedFile::name() { return reader_.string("name"); }

void SourcedFile::entry(const std::string& key, const std::function<void(MapReader&)>& get) {
  const Node* node = reader_.find(key);
  if (node == nullptr) return;
  MapReader entry(*node, log_);
  get(entry);
  if (const Node* value = node->find("value")) values_[key] = value->text;
  sources_[key] = entry.string("source");
  for (const char* of_a_fit : {"start", "range", "uncertainty"}) entry.find(of_a_fit);
  entry.finish();
}

std::vector<std::string> SourcedFile::names(const std::string& key) {
  std::vector<std::string> result;
  const Node* node = reader_.find(key);
  if (node == nullptr) return result;
  if (node->kind != NodeKind::Sequence) {
    log_.error(*node, "expected a list of names");
    return result;
  }
  for (const NodePtr& item : node->items)
    if (auto name = read_string(*item, log_)) result.push_back(*name);
  return result;
}

void SourcedFile::read(const std::string& key, double& value, Sign sign) {
  entry(key, [&](MapReader& r) { value = r.number("value", sign); });
}
void SourcedFile::read(const std::string& key, Duration& value) {
  entry(key, [&](MapReader& r) { value = r.duration("value"); });
}
void SourcedFile::read(const std::string& key, ComputeRate& value) {
  entry(key, [&](MapReader& r) { value = r.compute_rate("value"); });
}

std::map<std::string, std::string> SourcedFile::finish() {
  reader_.finish();
  log_.throw_if_errors();
  return std::move(sources_);
}

}  // namespace panpipe
