#include "jobs/nanotron/python_value.hpp"

#include <fmt/format.h>

#include <cctype>

#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "base/text/json_writer.hpp"

namespace panpipe::jobs {
namespace {

constexpr int kDeepest = 100;

class PythonReader {
 public:
  PythonReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  std::string json() {
    value(0);
    blanks();
    if (at_ < text_.size()) refuse("ends here, and the log goes on");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    int line = 1;
    for (std::size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n' ? 1 : 0;
    throw option_fault("job", fmt::format("{}: the printed configuration {} (its line {})", name_, what, line),
                       "name a scenario of it");
  }
  char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  void expect(char c) {
    blanks();
    if (here() != c) refuse("is not Python's");
    ++at_;
  }
  bool takes(char c) {
    blanks();
    if (here() != c) return false;
    ++at_;
    return true;
  }

  void value(int depth) {
    if (depth > kDeepest) refuse("is nested too deeply");
    blanks();
    const char c = here();
    if (c == '\'' || c == '"') return string();
    if (c == '[' || c == '(') return list(c == '[' ? ']' : ')', depth);
    if (c == '{') return map(depth);
    if (c == '<') return object_in_brackets();
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.') return number();
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') return name_or_object(depth);
    refuse("is not Python's");
  }

  void string() {
    const char quote = here();
    std::string text;
    for (++at_; here() != quote; ++at_) {
      if (at_ >= text_.size()) refuse("has a string without end");
      if (here() == '\\') ++at_;
      text += here();
    }
    ++at_;
    out_ += json_text(text);
  }

  // What stands behind a bracket, up to the one that closes it; `brackets` are JSON's.
  template <class Item>
  void items(char close, const char* brackets, Item item) {
    ++at_;
    out_ += brackets[0];
    for (bool first = true; !takes(close); first = false) {
      if (!first) {
        expect(',');
        if (takes(close)) break;
        out_ += ',';
      }
      item();
    }
    out_ += brackets[1];
  }

  void list(char close, int depth) {
    items(close, "[]", [&] { value(depth + 1); });
  }

  void map(int depth) {
    items('}', "{}", [&] {
      const std::size_t from = out_.size();
      value(depth + 1);
      if (out_[from] != '"') out_ = out_.substr(0, from) + json_text(out_.substr(from));
      expect(':');
      out_ += ':';
      value(depth + 1);
    });
  }

  // "<Mode.REDUCE_SCATTER: 2>", "<nanotron...OneForwardOneBackwardPipelineEngine object at 0x7f...>"
  void object_in_brackets() {
    const std::size_t end = text_.find('>', at_);
    if (end == std::string_view::npos) refuse("has a '<' without '>'");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    const std::string_view word = inside.substr(0, inside.find_first_of(": "));
    const std::size_t point = word.rfind('.');
    out_ += json_text(point == std::string_view::npos ? word : word.substr(point + 1));
  }

  void number() {
    const std::size_t from = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(here())) != 0 || here() == '.' || here() == '-' || here() == '+'))
      ++at_;
    out_ += text_.substr(from, at_ - from);
  }

  void name_or_object(int depth) {
    const std::size_t from = at_;
    while (std::isalnum(static_cast<unsigned char>(here())) != 0 || here() == '_' || here() == '.') ++at_;
    const std::string_view word = text_.substr(from, at_ - from);
    if (here() == '(') return object(depth);
    if (word == "None")
      out_ += "null";
    else if (word == "True")
      out_ += "true";
    else if (word == "False")
      out_ += "false";
    else if (word == "inf" || word == "nan")
      out_ += "null";
    else
      out_ += json_text(word.substr(word.rfind('.') == std::string_view::npos ? 0 : word.rfind('.') + 1));
  }

  // "Name(field=value, ...)"; "PosixPath('x')" is its argument.
  void object(int depth) {
    const std::size_t inside = text_.find_first_not_of(" \t\r\n", at_ + 1);
    if (inside != std::string_view::npos && (text_[inside] == '\'' || text_[inside] == '"')) {
      at_ = inside;
      string();
      return expect(')');
    }
    items(')', "{}", [&] {
      blanks();
      const std::size_t from = at_;
      while (std::isalnum(static_cast<unsigned char>(here())) != 0 || here() == '_') ++at_;
      if (at_ == from) refuse("is not Python's");
      out_ += json_text(text_.substr(from, at_ - from)) + ":";
      expect('=');
      value(depth + 1);
    });
  }

  std::string_view text_;
  const std::string& name_;
  std::string out_;
  std::size_t at_ = 0;
};

}  // namespace

std::string json_of_python(std::string_view text, const std::string& name) { return PythonReader(text, name).json(); }

}  // namespace panpipe::jobs
