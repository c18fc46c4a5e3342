#include "base/input/yaml_document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/input/error_with_caret.hpp"
#include "base/input/parse_source.hpp"
#include "base/input/reader.hpp"
#include "base/input/source_text.hpp"

namespace panpipe {

namespace {

// Deeper than any sensible file, and shallower than yaml-cpp's own limit of 500, whose message has no words.
constexpr std::size_t kDeepest = 64;

// A value takes some 300 bytes here: 2^20 of them, far more than any table of costs or layers holds, take a third of a GiB.
constexpr int kMostValues = 1 << 20;

struct Place {
  int line = 0, column = 0;
};

// Turns yaml-cpp's events into Nodes and reports what this project refuses. One open map or list per frame.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& text, std::shared_ptr<const SourceText> source)
      : text_(text), source_(std::move(source)), columns_(*source_) {}

  NodePtr root() const { return root_; }
  // Ends the reading: throws everything that was reported.
  void throw_if_reported() {
    for (Diagnostic& diagnostic : key_diagnostics_) diagnostics_.push_back(std::move(diagnostic));
    std::stable_sort(diagnostics_.begin(), diagnostics_.end(), [](const Diagnostic& a, const Diagnostic& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
    if (diagnostics_.size() > kMostDiagnostics) diagnostics_.erase(diagnostics_.begin() + kMostDiagnostics, diagnostics_.end());
    if (!diagnostics_.empty()) throw InputError(std::move(diagnostics_));
  }
  // Where the innermost map or list that is still open starts.
  std::optional<Place> open_place() const {
    if (frames_.empty()) return std::nullopt;
    return Place{frames_.back().node->line, frames_.back().node->column};
  }

  void report(Place place, const std::string& path, const std::string& message, const std::string& help = "",
              std::string_view code = code::kSyntax) {
    if (diagnostics_.size() < kMostDiagnostics)
      diagnostics_.push_back(render_diagnostic(*source_, false, place.line, place.column, path, message, help, code));
  }
  // A key that cannot be one. Forgotten when the text ends inside a bracket, where yaml-cpp takes open brackets for keys.
  void report_key(Place place, const std::string& path, const std::string& message) {
    if (diagnostics_.size() + key_diagnostics_.size() < kMostDiagnostics)
      key_diagnostics_.push_back(render_diagnostic(*source_, false, place.line, place.column, path, message, "", code::kSyntax));
  }
  [[noreturn]] void fail(Place place, const std::string& path, const std::string& message, const std::string& help = "") {
    report(place, path, message, help);
    throw InputError(diagnostics_);
  }
  Place place_of(const YAML::Mark& mark) {
    if (mark.line < 0) return {};
    return {mark.line + 1, columns_.column(mark.line + 1, mark.column)};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) fail(place_of(mark), "", "a second document starts here; a file holds one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { take(make(NodeKind::Null, mark)); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    NodePtr node = make(NodeKind::Null, mark);
    report({node->line, node->column}, node->path, "aliases ('*name') are not supported", "write the value out");
    take(node);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    NodePtr node = make(NodeKind::Scalar, mark);
    if (tag == "!" && !is_closed(mark.pos)) fail({node->line, node->column}, "", "the text in quotes is not closed");
    node->text = value;
    node->quoted = tag == "!";  // yaml-cpp's tag of a quoted or block scalar; "?" is a plain one
    if (tag != "!" && tag != "?") refuse_tag(*node, tag);
    take(node);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(NodeKind::Sequence, mark, tag);
  }
  void OnSequenceEnd() override { frames_.pop_back(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(NodeKind::Map, mark, tag);
  }
  void OnMapEnd() override { frames_.pop_back(); }

 private:
  struct Frame {
    NodePtr node;
    bool has_key = false;  // maps: a key was read, its value is next
    std::string key;
    Place key_place;
    bool drop_value = false;  // the key was refused
    std::unordered_map<std::string, int> first_lines;
  };

  NodePtr make(NodeKind kind, const YAML::Mark& mark) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->source = source_;
    Place place = place_of(mark);
    // yaml-cpp gives a value that is not written ('{a: 1,,}') no place: it then stands where its key or the map does.
    if (place.line < 1 && !frames_.empty())
      place = frames_.back().has_key ? frames_.back().key_place : Place{frames_.back().node->line, frames_.back().node->column};
    if (place.line < 1) place = {1, 1};
    node->line = place.line;
    node->column = place.column;
    if (++values_ > kMostValues) fail(place, "", fmt::format("the file holds more than {} keys and values", kMostValues));
    if (!frames_.empty()) {
      const Frame& frame = frames_.back();
      const std::string& above = frame.node->path;
      if (frame.node->kind == NodeKind::Sequence)
        node->path = fmt::format("{}[{}]", above, frame.node->items.size());
      else if (frame.has_key)
        node->path = above.empty() ? frame.key : above + "." + frame.key;
      else
        node->path = above;  // a key
    }
    return node;
  }

  void refuse_tag(const Node& node, const std::string& tag) {
    report({node.line, node.column}, node.path, fmt::format("tags ('{}') are not supported", tag), "leave the tag out");
  }

  void open(NodeKind kind, const YAML::Mark& mark, const std::string& tag) {
    NodePtr node = make(kind, mark);
    if (frames_.size() >= kDeepest)
      fail({node->line, node->column}, "", fmt::format("maps and lists are nested more than {} deep", kDeepest));
    if (tag != "!" && tag != "?" && !tag.empty()) refuse_tag(*node, tag);
    if (!frames_.empty() && frames_.back().node->kind == NodeKind::Map && !frames_.back().has_key) {
      report_key({node->line, node->column}, node->path, "a key must be a word, not a map or list");
      frames_.back().has_key = true;
      frames_.back().key = "?";
      frames_.back().key_place = {node->line, node->column};
      frames_.back().drop_value = true;
    } else {
      take(node);
    }
    Frame frame;
    frame.node = node;
    frames_.push_back(std::move(frame));
  }

  void take(const NodePtr& node) {
    if (frames_.empty()) {
      root_ = node;
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node->kind == NodeKind::Sequence) {
      frame.node->items.push_back(node);
    } else if (!frame.has_key) {
      take_key(frame, *node);
    } else {
      take_value(frame, node);
    }
  }

  void take_key(Frame& frame, const Node& key) {
    frame.has_key = true;
    frame.key = key.text;
    frame.key_place = {key.line, key.column};
    frame.drop_value = true;
    if (key.kind != NodeKind::Scalar || key.text.empty()) {
      report_key(frame.key_place, key.path, "there is no key before ':'");
      return;
    }
    const std::string path = frame.node->path.empty() ? key.text : frame.node->path + "." + key.text;
    if (key.text == "<<" && !key.quoted) {
      report(frame.key_place, path, "merge keys ('<<') are not supported", "write the keys out");
      return;
    }
    const auto [earlier, is_new] = frame.first_lines.emplace(key.text, key.line);
    if (!is_new) {
      report(frame.key_place, path, fmt::format("key '{}' is given twice, first on line {}", key.text, earlier->second), "",
             code::kRepeated);
      return;
    }
    frame.drop_value = false;
  }

  void take_value(Frame& frame, const NodePtr& value) {
    frame.has_key = false;
    if (value->kind == NodeKind::Null && value->line != frame.key_place.line) {
      // yaml-cpp puts an absent value where the next token stands.
      value->line = frame.key_place.line;
      value->column = frame.key_place.column;
    }
    if (!frame.drop_value) frame.node->entries.push_back({frame.key, frame.key_place.line, frame.key_place.column, value});
  }

  // yaml-cpp accepts an unclosed quoted text up to the end of the file if the last character is a line end.
  bool is_closed(int position) const {
    if (position < 0 || static_cast<std::size_t>(position) >= text_.size()) return true;
    const char quote = text_[position];
    if (quote != '"' && quote != '\'') return true;  // a block scalar
    for (std::size_t i = static_cast<std::size_t>(position) + 1; i < text_.size(); ++i) {
      if (quote == '"' && text_[i] == '\\') {
        ++i;
      } else if (text_[i] == quote) {
        if (quote == '"' || i + 1 >= text_.size() || text_[i + 1] != quote) return true;
        ++i;
      }
    }
    return false;
  }

  const std::string& text_;
  std::shared_ptr<const SourceText> source_;
  ColumnCursor columns_;
  NodePtr root_;
  std::vector<Frame> frames_;
  std::vector<Diagnostic> diagnostics_, key_diagnostics_;
  int documents_ = 0;
  int values_ = 0;
};

struct Translation {
  std::string_view theirs, ours;
  bool at_opening = false;  // the place to show is where the open map or list starts
};

// yaml-cpp's messages, translated for the author of the file.
constexpr std::array<Translation, 13> kTranslations = {{
    {"end of sequence flow not found", "the list that starts with '[' here is not closed", true},
    {"end of map flow not found", "the map that starts with '{' here is not closed", true},
    {"end of sequence not found", "this does not belong to the list above it; check the indentation"},
    {"end of map not found", "this does not belong to the map above it; check the indentation"},
    {"illegal map value", "there is no key for this ':'; check the indentation, or put the text into quotes"},
    {"illegal map key", "there can be no key here; check the indentation"},
    {"illegal block entry", "there can be no list item ('-') here; check the indentation"},
    {"illegal flow end", "this bracket closes nothing"},
    {"illegal EOF in scalar", "a text in quotes is not closed before the end"},
    {"illegal document indicator in scalar", "a text in quotes is not closed before the end"},
    {"unknown token", "YAML gives this character a meaning of its own; put the text into quotes"},
    {"the referenced anchor is not defined", "aliases ('*name') are not supported"},
    {"illegal tab when looking for indentation", "indentation is made of spaces, and this is a tab"},
}};

// The first tab in the indentation of the line or of the one before it; yaml-cpp trips over the line after the tab.
std::optional<Place> tab_indent(const SourceText& source, int line) {
  for (int i = std::max(1, line - 1); i <= line && i <= static_cast<int>(source.lines.size()); ++i) {
    const std::string& text = source.lines[i - 1];
    const std::size_t tab = text.find('\t');
    if (tab != std::string::npos && tab < text.find_first_not_of(" \t")) return Place{i, static_cast<int>(tab) + 1};
  }
  return std::nullopt;
}

[[noreturn]] void fail_with_parser_error(TreeBuilder& builder, const SourceText& source, const YAML::Exception& error) {
  Place place = builder.place_of(error.mark);
  const int last_line = static_cast<int>(source.lines.size());
  if (place.line > last_line) place = {last_line, 1};
  std::string message = "this is not valid YAML: " + error.msg;
  for (const Translation& translation : kTranslations)
    if (error.msg.rfind(translation.theirs, 0) == 0) {
      message = translation.ours;
      if (translation.at_opening && builder.open_place()) place = *builder.open_place();
    }
  if (const auto tab = tab_indent(source, place.line)) builder.fail(*tab, "", "indentation is made of spaces, and this is a tab");
  builder.fail(place, "", message);
}

}  // namespace

NodePtr parse_source(const std::string& text, const std::shared_ptr<const SourceText>& source) {
  std::istringstream stream(text);
  TreeBuilder builder(text, source);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    fail_with_parser_error(builder, *source, error);
  }
  builder.throw_if_reported();
  return builder.root();
}

const Node* Node::find(const std::string& key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return entry.value.get();
  return nullptr;
}

NodePtr parse_document(const std::string& text, const std::string& name, const std::string& directory) {
  auto source = std::make_shared<SourceText>();
  source->name = name;
  source->directory = directory;
  const std::string clean = checked_text(text, *source);
  NodePtr root = parse_source(clean, source);
  if (!root || root->kind == NodeKind::Null)
    throw InputError(std::vector<Diagnostic>{diagnostic_of_file(name, "the file is empty", "", code::kEmpty)});
  return root;
}

NodePtr load_document(const std::string& path) {
  const std::string text = read_text_file(path);
  return parse_document(text, path, reference_folder(path));
}

Diagnostic diagnostic_at(const Node& node, const std::string& message, const std::string& help, std::string_view code) {
  return render_diagnostic(*node.source, node.overridden, node.line, node.column, node.path, message, help, code);
}

Diagnostic diagnostic_at_key(const Node& map, const std::string& key, const std::string& message, const std::string& help,
                             std::string_view code) {
  for (const Node::Entry& entry : map.entries)
    if (entry.key == key)
      return render_diagnostic(*entry.value->source, entry.value->overridden, entry.line, entry.column,
                               map.path.empty() ? key : map.path + "." + key, message, help, code);
  return diagnostic_at(map, message, help, code);
}

}  // namespace panpipe
