#include "jobs/edit/document_edits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/text/characters.hpp"

namespace panpipe::jobs {
namespace {

class DocumentEditor {
 public:
  DocumentEditor(const std::string& text, const Node& root, DocumentForm form, std::vector<std::string>& by_hand)
      : text_(text), root_(root), form_(form), by_hand_(by_hand), edits_(text) {
    starts_.push_back(text.starts_with("\xEF\xBB\xBF") ? 3 : 0);
    for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) starts_.push_back(at + 1);
    newline_ = text.find("\r\n") == std::string::npos ? "\n" : "\r\n";
  }

  TextEdits edited(const std::vector<Setting>& settings) {
    std::map<std::string, std::vector<Setting>> added;  // by section; "" is the document itself
    for (const auto& [path, value] : settings) {
      const std::size_t point = path.find('.');
      const std::string section = point == std::string::npos ? "" : path.substr(0, point);
      const std::string key = point == std::string::npos ? path : path.substr(point + 1);
      const Node* map = section.empty() ? &root_ : root_.find(section);
      const Node* old = map != nullptr && map->kind == NodeKind::Map ? map->find(key) : nullptr;
      if (old == nullptr)
        added[section].emplace_back(key, value);
      else if (!replace(*old, value))
        by_hand_.push_back(fmt::format("line {}: write {} as {}", old->line, path, value));
    }
    for (const auto& [section, keys] : added) add(section, keys);
    return edits_;
  }

 private:
  // Of a place, whose columns count characters.
  std::optional<std::size_t> offset(int line, int column) const {
    if (line < 1 || static_cast<std::size_t>(line) > starts_.size()) return std::nullopt;
    std::size_t at = starts_[line - 1];
    for (int i = 1; i < column && at < text_.size(); ++i) at += std::max<std::size_t>(1, utf8_length(text_, at));
    return at < text_.size() ? std::optional(at) : std::nullopt;
  }

  bool replace(const Node& old, const std::string& value) {
    const auto begin = offset(old.line, old.column);
    if (!begin) return false;
    const std::size_t end = end_of_value(text_, *begin);
    const bool same = old.kind != NodeKind::Scalar || text_.substr(*begin, end - *begin).find(old.text) != std::string::npos;
    if (!same || end == *begin) return false;
    const char quote = text_[*begin];
    const bool quoted = old.kind == NodeKind::Scalar && (quote == '"' || quote == '\'') && !value.starts_with('"');
    edits_.replace({*begin, end}, quoted ? quote + value + quote : value);
    return true;
  }

  std::string entry(const Setting& setting) const {
    if (form_ == DocumentForm::Json) return fmt::format("\"{}\": {}", setting.first, setting.second);
    return fmt::format("{}{}{}", setting.first, form_ == DocumentForm::Toml ? " = " : ": ", setting.second);
  }

  void add(const std::string& section, const std::vector<Setting>& keys) {
    std::vector<std::string> entries;
    for (const Setting& key : keys) entries.push_back(entry(key));
    const Node* map = section.empty() ? &root_ : root_.find(section);
    if (map != nullptr && map->kind == NodeKind::Map && !map->entries.empty()) return add_to(*map, entries);
    if (form_ == DocumentForm::Toml) {
      const bool ends = text_.empty() || text_.ends_with('\n');
      return edits_.insert(text_.size(), fmt::format("{}{}[{}]{}{}{}", ends ? "" : newline_, newline_, section, newline_,
                                                     fmt::join(entries, newline_), newline_));
    }
    if (map != nullptr || root_.entries.empty())
      return by_hand_.push_back(fmt::format("add to {}: {}", section, fmt::join(entries, ", ")));
    add_to(root_, {entry({section, fmt::format("{{{}}}", fmt::join(entries, ", "))})});
  }

  // In front of the first key, in the way in which that one stands.
  void add_to(const Node& map, const std::vector<std::string>& entries) {
    const auto first = std::min_element(map.entries.begin(), map.entries.end(), [](const Node::Entry& a, const Node::Entry& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
    const auto place = offset(first->line, first->column);
    if (!place) return by_hand_.push_back(fmt::format("add {}", fmt::join(entries, ", ")));
    const std::size_t begin = starts_[first->line - 1];
    const std::string before = text_.substr(begin, *place - begin);
    const bool own_line = before.find_first_not_of(" \t") == std::string::npos;
    const bool flow = form_ == DocumentForm::Json || (form_ == DocumentForm::Yaml && !own_line);
    std::string text;
    for (const std::string& one : entries) text += one + (flow ? "," : "") + (own_line ? newline_ + before : std::string(" "));
    edits_.insert(*place, text);
  }

  const std::string& text_;
  const Node& root_;
  DocumentForm form_;
  std::vector<std::string>& by_hand_;
  TextEdits edits_;
  std::vector<std::size_t> starts_;
  std::string newline_;
};

}  // namespace

std::size_t end_of_value(const std::string& text, std::size_t begin) {
  std::size_t at = begin;
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      std::size_t end = at + 1;
      while (end < text.size() && text[end] != c) end += c == '"' && text[end] == '\\' ? 2 : 1;
      at = std::min(end, text.size() - 1);
      if (depth == 0) return at + 1;
      continue;
    }
    if (c == '[' || c == '{' || c == '(') ++depth;
    if (c == ']' || c == '}' || c == ')') {
      if (depth == 0) break;
      if (--depth == 0) return at + 1;
    }
    if (c == '#' && depth > 0) at = std::min(text.find('\n', at), text.size() - 1);
    if (depth == 0 && (c == ',' || c == '#' || c == '\n' || c == ';')) break;
  }
  while (at > begin && (text[at - 1] == ' ' || text[at - 1] == '\t' || text[at - 1] == '\r')) --at;
  return at;
}

TextEdits document_edits(const std::string& text, const Node& root, DocumentForm form, const std::vector<Setting>& settings,
                         std::vector<std::string>& by_hand) {
  return DocumentEditor(text, root, form, by_hand).edited(settings);
}

std::vector<Setting> changed_settings(const std::vector<Setting>& before, const std::vector<Setting>& after) {
  std::vector<Setting> changed;
  for (const Setting& setting : after)
    if (std::find(before.begin(), before.end(), setting) == before.end()) changed.push_back(setting);
  return changed;
}

}  // namespace panpipe::jobs
