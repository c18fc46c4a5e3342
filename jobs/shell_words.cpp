#include "jobs/shell_words.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/input/source_text.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostText = std::size_t{1} << 20;

class Splitter {
 public:
  Splitter(std::string_view text, const std::string& name) : text_(text), name_(name) {}

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
  }
  void finish() {
    if (open_) words_.push_back(std::move(word_));
    open_ = false;
  }

  // A backslash in front of a line's end joins the lines; any other takes the next character as it is.
  void escape() {
    advance();
    if (at_ >= text_.size()) return;
    if (here() == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') advance();
    if (here() != '\n') {
      begin();
      word_.text += here();
    }
    advance();
  }

  void quoted(char quote) {
    begin();
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
      throw InputError(fmt::format("{}:{}:{}: the quote that begins here is not closed", name_, line, column));
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
    begin();
    if (c == '$' || c == '`') word_.expands = true;
    word_.text += c;
    advance();
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
  bool open_ = false;
  ShellWord word_;
  std::vector<ShellWord> words_;
};

}  // namespace

std::vector<ShellWord> shell_words(std::string_view text, const std::string& name) {
  if (text.size() > kMostText) throw InputError(fmt::format("{}: a command line of more than 1 MiB is none", name));
  SourceText source;
  source.name = name;
  const std::string checked = checked_text(std::string(text), source);
  return Splitter(checked, name).words();
}

}  // namespace panpipe::jobs
