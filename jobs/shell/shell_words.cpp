#include "jobs/shell/shell_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "jobs/shell/script_files.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostText = std::size_t{1} << 20;

class Splitter {
 public:
  explicit Splitter(const ScriptFiles& files) : files_(files), text_(files.text(0)) {}

  std::vector<ShellWord> words() {
    while (at_ < text_.size()) step();
    finish();
    return std::move(words_);
  }

 private:
  char here() const { return text_[at_]; }
  void advance() {
    if (here() == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
    ++at_;
  }
  void begin() {
    if (open_) return;
    open_ = true;
    word_ = {};
    word_.line = line_, word_.column = column_;
    begin_ = at_;
    parentheses_ = 0;
    plain_ = true;
  }
  void finish() {
    if (!open_) return;
    word_.after_array = after_array_;
    std::string written(text_.substr(begin_, at_ - begin_));
    std::erase_if(written, [](char c) { return c == '"' || c == '\'' || c == '\\'; });
    // Of a word in quotes only the whole has a place, not its part behind '='.
    const bool in_quotes = written.size() != at_ - begin_ && word_.text.find('=') != std::string::npos;
    if (!word_.expands && !in_quotes && written == word_.text)
      word_.pieces = {{word_.text, files_.place(0, begin_, at_ - begin_), std::nullopt}};
    words_.push_back(std::move(word_));
    open_ = after_array_ = false;
  }

  // "NAME=" or "NAME+=" without quotes.
  bool names_array() const {
    std::string_view name = word_.text;
    if (!open_ || !plain_ || !name.ends_with('=')) return false;
    name.remove_suffix(1);
    if (name.ends_with('+')) name.remove_suffix(1);
    const auto letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
           std::all_of(name.begin(), name.end(), letter);
  }

  // Whether the parenthesis is bash's and not the word's, as in ([0]*3+[1]*58).
  bool array_bracket(char c) {
    if (c == '(' && names_array()) {
      open_ = false;
    } else if (c == ')' && (!open_ || parentheses_ == 0)) {
      finish();
    } else {
      return false;
    }
    after_array_ = true;
    advance();
    return true;
  }

  // A backslash in front of a line's end joins the lines; any other takes the next character as it is.
  void escape() {
    advance();
    if (at_ >= text_.size()) return;
    if (here() == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') advance();
    if (here() != '\n') {
      begin();
      plain_ = false;
      word_.text += here();
    }
    advance();
  }

  void quoted(char quote) {
    begin();
    plain_ = false;
    const int line = line_, column = column_;
    advance();
    while (at_ < text_.size() && here() != quote) {
      if (quote == '"' && here() == '\\' && at_ + 1 < text_.size()) {
        const char next = text_[at_ + 1];
        if (next == '"' || next == '\\' || next == '$' || next == '`') advance();
      } else if (quote == '"' && (here() == '$' || here() == '`')) {
        word_.expands = true;
      }
      word_.text += here();
      advance();
    }
    if (at_ >= text_.size())
      throw InputError(fmt::format("{}:{}:{}: the quote that begins here is not closed", files_.name(0), line, column));
    advance();
  }

  void step() {
    const char c = here();
    if (c == '\\') return escape();
    if (c == '\'' || c == '"') return quoted(c);
    if (c == '#' && !open_) {
      while (at_ < text_.size() && here() != '\n') advance();
      return;
    }
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      finish();
      return advance();
    }
    if ((c == '(' || c == ')') && array_bracket(c)) return;
    begin();
    if (c == '(') ++parentheses_;
    if (c == ')') --parentheses_;
    if (c == '$' || c == '`') word_.expands = true;
    word_.text += c;
    advance();
  }

  const ScriptFiles& files_;
  std::string_view text_;
  std::size_t at_ = 0, begin_ = 0;  // of the word
  int line_ = 1, column_ = 1;
  bool open_ = false;
  bool plain_ = true;         // of the word: nothing in it is quoted
  int parentheses_ = 0;       // of the word, not closed
  bool after_array_ = false;  // of the next word
  ShellWord word_;
  std::vector<ShellWord> words_;
};

}  // namespace

std::optional<TextPlace> ShellWord::place(std::size_t from) const {
  std::size_t begin = 0;
  for (const WordPiece& piece : pieces) {
    const bool holds = begin <= from && begin + piece.text.size() == text.size() && piece.place && from < text.size();
    if (holds) {
      TextPlace place = *piece.place;
      place.begin += from - begin;
      place.column += static_cast<int>(from - begin);
      return place;
    }
    begin += piece.text.size();
  }
  return std::nullopt;
}

ShellWord ShellWord::without_first(std::size_t count) const {
  ShellWord rest = *this;
  rest.text = text.substr(std::min(count, text.size()));
  rest.stands_alone = false;
  rest.pieces.clear();
  rest.expands = pieces.empty() ? expands : false;
  std::size_t begin = 0;
  for (WordPiece piece : pieces) {
    const std::size_t size = piece.text.size(), skipped = count > begin ? std::min(count - begin, size) : 0;
    begin += size;
    if (skipped == size) continue;
    piece.text.erase(0, skipped);
    if (piece.place) piece.place->begin += skipped, piece.place->column += static_cast<int>(skipped);
    rest.expands |= piece.unknown.has_value();
    rest.pieces.push_back(std::move(piece));
  }
  return rest;
}

std::vector<ShellWord> shell_words(std::string_view text, const std::string& name) {
  if (text.size() > kMostText) throw InputError(fmt::format("{}: a command line of more than 1 MiB is none", name));
  ScriptFiles files;
  files.add(std::string(text), name);
  return Splitter(files).words();
}

}  // namespace panpipe::jobs
