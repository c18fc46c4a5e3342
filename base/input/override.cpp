// Applies --set KEY=VALUE to a parsed document.
#include <fmt/format.h>

#include <algorithm>

#include "base/input/error_with_caret.hpp"
#include "base/input/parse_source.hpp"
#include "base/input/reader.hpp"
#include "base/input/source_text.hpp"
#include "base/input/yaml_document.hpp"

namespace panpipe {

namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

struct Step {
  std::string name;
  int index = -1;  // list index when name is empty
  int column = 0;  // in the assignment, from 1
};

[[noreturn]] void fail_override(const SourceText& source, int column, const std::string& path, const std::string& message,
                                const std::string& help = "", std::string_view code = code::kSyntax) {
  throw InputError(std::vector<Diagnostic>{render_diagnostic(source, true, 1, column, path, message, help, code)});
}

// "cluster.devices[1].memory" -> steps.
std::vector<Step> split_key(const SourceText& source, const std::string& key) {
  const std::string help = "write KEY=VALUE, as in batch.micro=4 or 'partition[0]=12'";
  std::vector<Step> steps;
  std::size_t i = 0;
  while (i < key.size()) {
    Step step;
    step.column = static_cast<int>(i) + 1;
    if (key[i] == '[' && !steps.empty()) {
      const std::size_t end = key.find(']', i);
      const std::string digits = end == std::string::npos ? "" : key.substr(i + 1, end - i - 1);
      if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos)
        fail_override(source, step.column, "", "a list index is a number in brackets", help);
      step.index = std::stoi(digits);
      i = end + 1;
    } else {
      if (!steps.empty()) {
        if (key[i] != '.') fail_override(source, step.column, "", fmt::format("'{}' is not a key", key), help);
        step.column = static_cast<int>(++i) + 1;
      }
      const std::size_t begin = i;
      while (i < key.size() && is_name_character(key[i])) ++i;
      step.name = key.substr(begin, i - begin);
      if (step.name.empty()) fail_override(source, step.column, "", fmt::format("'{}' is not a key", key), help);
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

void mark_overridden(Node& node, const std::string& path) {
  node.overridden = true;
  node.path = path;
  for (std::size_t i = 0; i < node.items.size(); ++i) mark_overridden(*node.items[i], fmt::format("{}[{}]", path, i));
  for (Node::Entry& entry : node.entries) mark_overridden(*entry.value, path.empty() ? entry.key : path + "." + entry.key);
}

// Parses the value at its place in the assignment, so that its columns are those of the assignment.
NodePtr parse_override_value(const std::shared_ptr<SourceText>& source, std::size_t equals) {
  const std::string& assignment = source->lines.front();
  const std::string value = assignment.substr(equals + 1);
  const int column = character_column(*source, 1, static_cast<int>(equals) + 1);
  NodePtr node;
  try {
    node = parse_source(std::string(equals + 1, ' ') + value, source);
  } catch (const InputError& error) {
    const Diagnostic& first = error.diagnostics().front();
    fail_override(*source, std::max(first.column, 1), "", first.message);
  }
  if (!node || (node->kind == NodeKind::Null && value.find_first_not_of(' ') == std::string::npos))
    fail_override(*source, column, "", "there is no value after '='", "write KEY=VALUE, as in batch.micro=4");
  return node;
}

std::string path_below(const Node& node, const Step& step) {
  if (step.name.empty()) return fmt::format("{}[{}]", node.path, step.index);
  return node.path.empty() ? step.name : node.path + "." + step.name;
}

[[noreturn]] void fail_kind(const Node& node, const Step& step, const std::string& path, const SourceText& source,
                            const char* wanted) {
  const std::string name = node.path.empty() ? "the document" : node.path;
  fail_override(source, step.column, path, fmt::format("'{}' is {}, not {}", name, words_for(node), wanted), "",
                code::kWrongType);
}

NodePtr& item_slot(Node& list, const Step& step, const std::string& path, const SourceText& source) {
  if (list.kind != NodeKind::Sequence) fail_kind(list, step, path, source, "a list");
  if (step.index >= static_cast<int>(list.items.size()))
    fail_override(source, step.column, path, fmt::format("'{}' has {} items, numbered from 0", list.path, list.items.size()), "",
                  code::kOutOfRange);
  return list.items[step.index];
}

// The key's value; null where the key is new. The last key of an assignment takes the assignment's place.
NodePtr& entry_slot(Node& map, const Step& step, const std::string& path, const SourceText& source, bool last) {
  if (map.kind != NodeKind::Map) fail_kind(map, step, path, source, "a map");
  const auto found =
      std::find_if(map.entries.begin(), map.entries.end(), [&](const Node::Entry& e) { return e.key == step.name; });
  if (found == map.entries.end()) {
    map.entries.push_back({step.name, 1, step.column, nullptr});
    return map.entries.back().value;
  }
  if (last) {
    found->line = 1;
    found->column = step.column;
  }
  return found->value;
}

NodePtr empty_map(const std::shared_ptr<SourceText>& source, int column, const std::string& path) {
  auto made = std::make_shared<Node>();
  made->kind = NodeKind::Map;
  made->source = source;
  made->line = 1;
  made->column = column;
  made->path = path;
  made->overridden = true;
  return made;
}

}  // namespace

void apply_override(Node& root, const std::string& assignment) {
  auto source = std::make_shared<SourceText>();
  source->name = "--set " + assignment;
  const std::size_t equals = assignment.find('=');
  checked_text(assignment, *source);
  if (source->lines.size() != 1) {
    source->lines.resize(1);
    source->name = "--set " + source->lines.front();
    fail_override(*source, 1, "", "an assignment is one line");
  }
  source->name = "--set " + source->lines.front();
  if (equals == std::string::npos || equals == 0)
    fail_override(*source, 1, "", equals == 0 ? "there is no key before '='" : "there is no '='",
                  "write KEY=VALUE, as in batch.micro=4");
  const std::vector<Step> steps = split_key(*source, assignment.substr(0, equals));
  NodePtr value = parse_override_value(source, equals);

  Node* at = &root;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const bool last = i + 1 == steps.size();
    const std::string path = path_below(*at, step);
    NodePtr& slot = step.name.empty() ? item_slot(*at, step, path, *source) : entry_slot(*at, step, path, *source, last);
    if (last) {
      slot = value;
      mark_overridden(*slot, path);
    } else if (!slot || slot->kind == NodeKind::Null) {
      slot = empty_map(source, step.column, path);
    }
    at = slot.get();
  }
}

}  // namespace panpipe
