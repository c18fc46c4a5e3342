#include "jobs/megatron/yaml_arguments.hpp"

#include <algorithm>

#include "base/input/yaml_document.hpp"

namespace panpipe::jobs {
namespace {

bool has_model_arguments(const std::string& text) {
  return text.rfind("MODEL_ARGS:", 0) == 0 || text.find("\nMODEL_ARGS:") != std::string::npos;
}

class YamlWords {
 public:
  YamlWords(const std::string& text, const std::string& name, const std::map<std::string, std::string>& defines)
      : text_(text), name_(name), defines_(defines) {
    starts_.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') starts_.push_back(i + 1);
  }

  std::vector<ShellWord> words(const Node& arguments) {
    for (const Node::Entry& entry : arguments.entries) {
      const Node& value = *entry.value;
      if (value.kind == NodeKind::Scalar && (value.text == "false" || value.text == "False")) continue;
      add(entry.key, entry.line, entry.column);
      if (value.kind == NodeKind::Scalar && value.text != "true" && value.text != "True")
        add(value.text, value.line, value.column);
      for (const NodePtr& item : value.items) add(item->text, item->line, item->column);
    }
    return std::move(words_);
  }

 private:
  void add(const std::string& text, int line, int column) {
    ShellWord word;
    word.line = line, word.column = column;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t open = text.find("${", at), close = open == std::string::npos ? open : text.find('}', open);
      if (close == std::string::npos) {
        add_piece(word, text.substr(at), at == 0);
        break;
      }
      if (open > at) add_piece(word, text.substr(at, open - at), false);
      add_variable(word, text.substr(open + 2, close - open - 2));
      at = close + 1;
    }
    words_.push_back(std::move(word));
  }

  void add_piece(ShellWord& word, std::string text, bool whole) {
    WordPiece piece;
    piece.text = std::move(text);
    word.text += piece.text;
    const auto line = static_cast<std::size_t>(word.line);
    if (whole && line > 0 && line <= starts_.size()) {
      const std::size_t begin = starts_[line - 1] + static_cast<std::size_t>(word.column) - 1;
      if (text_.compare(std::min(begin, text_.size()), piece.text.size(), piece.text) == 0)
        piece.place = TextPlace{name_, begin, begin + piece.text.size(), word.line, word.column};
    }
    word.pieces.push_back(std::move(piece));
  }

  void add_variable(ShellWord& word, const std::string& variable) {
    const auto found = defines_.find(variable);
    if (found != defines_.end()) return add_piece(word, found->second, false);
    WordPiece piece;
    piece.text = "${" + variable + "}";
    piece.unknown = UnknownName{variable, word.line, name_, "", {}};
    word.text += piece.text;
    word.expands = true;
    word.pieces.push_back(std::move(piece));
  }

  const std::string& text_;
  const std::string& name_;
  const std::map<std::string, std::string>& defines_;
  std::vector<std::size_t> starts_;
  std::vector<ShellWord> words_;
};

}  // namespace

std::vector<ShellWord> yaml_arguments(const std::string& text, const std::string& name,
                                      const std::map<std::string, std::string>& defines) {
  if (!has_model_arguments(text)) return {};
  const NodePtr root = parse_document(text, name, "");
  const Node* arguments = root->find("MODEL_ARGS");
  if (arguments == nullptr || arguments->kind != NodeKind::Map) return {};
  return YamlWords(text, name, defines).words(*arguments);
}

}  // namespace panpipe::jobs
