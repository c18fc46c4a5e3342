#include "jobs/toml_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/input/error_with_caret.hpp"
#include "base/input/source_text.hpp"

// toml++ 3.3 and 3.4 assume in releases what they assert otherwise, also of a key that begins with a letter it must not; their
// code behind the assertion refuses it with its place. So neither.
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostToml = std::size_t{1} << 20;
constexpr std::size_t kLongestPath = 256;  // every value keeps its own; torchtitan's longest has 63 bytes

// A value as YAML would write it; dates stay text.
std::string scalar_of(const toml::node& node, bool& quoted) {
  if (const auto* text = node.as_string()) {
    quoted = true;
    return text->get();
  }
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  quoted = true;
  return std::string("a date");
}

void check_path(const std::string& path, const toml::key& key, const std::shared_ptr<const SourceText>& source) {
  if (path.size() <= kLongestPath) return;
  Node at;
  at.source = source;
  at.line = static_cast<int>(key.source().begin.line);
  at.column = static_cast<int>(key.source().begin.column);
  throw InputError(std::vector{diagnostic_at(
      at, fmt::format("a key of {} bytes with the tables that it lies in, more than {}", path.size(), kLongestPath))});
}

// toml++ refuses deeper nesting than 256, so this calls itself no deeper.
NodePtr tree_of(const toml::node& from, const std::shared_ptr<const SourceText>& source, const std::string& path) {
  auto node = std::make_shared<Node>();
  node->source = source;
  node->line = static_cast<int>(from.source().begin.line);
  node->column = static_cast<int>(from.source().begin.column);
  node->path = path;
  if (const auto* table = from.as_table()) {
    node->kind = NodeKind::Map;
    for (const auto& [key, value] : *table) {
      const std::string name(key.str());
      const std::string inner = path.empty() ? name : path + "." + name;
      check_path(inner, key, source);
      NodePtr child = tree_of(value, source, inner);
      node->entries.push_back(
          {name, static_cast<int>(key.source().begin.line), static_cast<int>(key.source().begin.column), child});
    }
    // toml++ sorts by key; the order of the file is easier to follow.
    std::sort(node->entries.begin(), node->entries.end(), [](const Node::Entry& a, const Node::Entry& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
  } else if (const auto* list = from.as_array()) {
    node->kind = NodeKind::Sequence;
    for (const auto& item : *list) node->items.push_back(tree_of(item, source, path));
  } else {
    node->kind = NodeKind::Scalar;
    node->text = scalar_of(from, node->quoted);
  }
  return node;
}

}  // namespace

NodePtr parse_toml(const std::string& text, const std::string& name) {
  if (text.size() > kMostToml) throw InputError(fmt::format("{}: a job's configuration of more than 1 MiB is none", name));
  auto source = std::make_shared<SourceText>(SourceText{name, std::string(1, '.'), {}});
  const std::string checked = checked_text(text, *source);
  if (checked.find_first_not_of(" \t\n") == std::string::npos)
    throw InputError(std::vector{diagnostic_of_file(name, "the file is empty")});
  const toml::parse_result parsed = toml::parse(checked);
  if (!parsed) {
    const auto& place = parsed.error().source().begin;
    Node at;
    at.source = source;
    at.line = static_cast<int>(place.line);
    at.column = static_cast<int>(place.column);
    throw InputError(std::vector{diagnostic_at(at, fmt::format("this is no TOML: {}", parsed.error().description()))});
  }
  return tree_of(parsed.table(), source, "");
}

}  // namespace panpipe::jobs
