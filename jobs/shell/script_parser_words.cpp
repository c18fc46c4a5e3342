#include <fmt/format.h>

#include <cctype>

#include "jobs/shell/script_parser.hpp"
#include "jobs/shell/script_parser_nesting.hpp"

namespace panpipe::jobs {
namespace {

bool is_blank_character(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// The character of \n and its like in $'...'; the letter itself for others.
char escaped_character(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    default:
      return letter;
  }
}

}  // namespace

int ScriptParser::line() const {
  const ShellPiece piece = source_.at(at_ < text_.size() ? at_ : text_.size());
  const int found = piece.unknown < 0 ? context_.files.line(piece.file, piece.offset) : 0;
  return found > 0 ? found : line_;
}

void ScriptParser::fault(const std::string& message) const { throw ScriptFault(message, line()); }

ScriptPart ScriptParser::part(ScriptPart::Kind kind, bool quoted) const {
  ScriptPart part;
  part.kind = kind, part.quoted = quoted, part.line = line();
  return part;
}

void ScriptParser::literal(ScriptWord& word, std::size_t begin, std::size_t end, bool quoted) const {
  const bool continues =
      !word.parts.empty() && word.parts.back().kind == ScriptPart::Kind::Literal && word.parts.back().quoted == quoted;
  if (!continues) word.parts.push_back(part(ScriptPart::Kind::Literal, quoted));
  word.parts.back().literal.append(source_.cut(begin, end));
}

// `depth`: parentheses of an expression that are open.
bool ScriptParser::ends_word(Stop stop, int depth) const {
  const char c = here();
  switch (stop) {
    case Stop::Word:
      return is_blank_character(c) || c == ';' || c == '&' || c == '|' || c == ')' || c == '(' ||
             ((c == '<' || c == '>') && here(1) != '(');
    case Stop::Quote:
      return c == '"';
    case Stop::Brace:
      return c == '}';
    case Stop::Slash:
      return c == '}' || c == '/';
    case Stop::Colon:
      return c == '}' || (c == ':' && depth == 0);
    case Stop::Bracket:
      return c == ']' && depth == 0;
    case Stop::Arithmetic:
      return c == ')' && depth == 0;
    case Stop::End:
      return false;
  }
  return false;
}

ScriptWord ScriptParser::word(Stop stop, bool in_quotes) {
  const Nesting nesting(*this);
  ScriptWord word;
  word.line = line();
  const bool expression = stop == Stop::Arithmetic || stop == Stop::Bracket || stop == Stop::Colon;
  int depth = 0;
  while (!done() && !ends_word(stop, depth)) {
    const char c = here();
    if (c == '\\') {
      escape(word, stop, in_quotes);
    } else if (c == '$') {
      dollar(word, in_quotes);
    } else if (c == '`') {
      backquotes(word, in_quotes);
    } else if ((c == '\'' || c == '"') && stop != Stop::Quote && stop != Stop::End && stop != Stop::Arithmetic) {
      quotes(word, in_quotes);
    } else if ((c == '<' || c == '>') && here(1) == '(' && stop == Stop::Word) {
      process(word);
    } else {
      if (expression && (c == '(' || c == '[')) ++depth;
      if (expression && (c == ')' || c == ']')) --depth;
      if (expression && c == '?') ++depth;  // a ? b : c
      if (expression && c == ':' && depth > 0) --depth;
      literal(word, at_, at_ + 1, in_quotes);
      // An extended pattern: ?(a|b) belongs to the word.
      const bool pattern = stop == Stop::Word && here(1) == '(' && (c == '?' || c == '*' || c == '+' || c == '@' || c == '!');
      ++at_;
      if (!pattern) continue;
      int open = 0;
      do {
        if (done()) fault("a pattern is not closed");
        if (here() == '(') ++open;
        if (here() == ')') --open;
        literal(word, at_, at_ + 1, in_quotes);
        ++at_;
      } while (open > 0);
    }
  }
  context_.budget.spend(word.parts.size() + 1);
  return word;
}

void ScriptParser::quotes(ScriptWord& word, bool in_quotes) {
  if (here() == '"') return double_quotes(word);
  if (!in_quotes) return single_quotes(word);
  literal(word, at_, at_ + 1, true);
  ++at_;
}

void ScriptParser::single_quotes(ScriptWord& word) {
  const std::size_t end = text_.find('\'', at_ + 1);
  if (end == std::string::npos) fault("the quote that begins here is not closed");
  literal(word, at_ + 1, end, true);
  at_ = end + 1;
}

void ScriptParser::ansi_quotes(ScriptWord& word) {
  const std::size_t begin = at_;
  at_ += 2;
  literal(word, at_, at_, true);
  while (!done() && here() != '\'') {
    if (here() == '\\' && at_ + 1 < text_.size()) {
      ScriptPart escaped = part(ScriptPart::Kind::Literal, true);
      escaped.literal.append(std::string(1, escaped_character(here(1))));
      word.parts.push_back(std::move(escaped));
      at_ += 2;
    } else {
      literal(word, at_, at_ + 1, true);
      ++at_;
    }
  }
  if (done()) {
    at_ = begin;
    fault("the quote that begins here is not closed");
  }
  ++at_;
}

void ScriptParser::double_quotes(ScriptWord& word) {
  const std::size_t begin = at_++;
  ScriptWord inner = this->word(Stop::Quote, true);
  if (inner.parts.empty()) literal(word, at_, at_, true);  // "" is a word
  if (done()) {
    at_ = begin;
    fault("the quote that begins here is not closed");
  }
  ++at_;
  for (ScriptPart& part : inner.parts) word.parts.push_back(std::move(part));
}

// A backslash in front of a line's end joins the lines; between quotes it only escapes what expands.
void ScriptParser::escape(ScriptWord& word, Stop stop, bool in_quotes) {
  const char next = here(1);
  if (next == '\n') {
    at_ += 2;
    return;
  }
  const bool special =
      next == '$' || next == '`' || next == '\\' || (next == '"' && stop != Stop::End) || (next == '}' && stop == Stop::Brace);
  if (at_ + 1 >= text_.size() || ((in_quotes || stop == Stop::Arithmetic) && !special)) {
    literal(word, at_, at_ + 1, true);
    ++at_;
    return;
  }
  literal(word, at_ + 1, at_ + 2, true);
  at_ += 2;
}

void ScriptParser::dollar(ScriptWord& word, bool quoted) {
  const char next = here(1);
  if (next == '(' && here(2) == '(' && arithmetic(word, quoted)) return;
  if (next == '(') return substitution(word, quoted);
  if (next == '{') return braces(word, quoted);
  if (next == '\'' && !quoted) return ansi_quotes(word);
  if (next == '"' && !quoted) {
    ++at_;
    return double_quotes(word);
  }
  ScriptPart parameter = part(ScriptPart::Kind::Parameter, quoted);
  ++at_;
  if (std::isdigit(static_cast<unsigned char>(next)) != 0)
    parameter.name = std::string(1, text_[at_++]);
  else
    parameter.name = parameter_name();
  if (!parameter.name.empty()) {
    word.parts.push_back(std::move(parameter));
  } else {
    literal(word, at_ - 1, at_, quoted);
  }
}

// A name, or one of $@ $* $# $? $$ $! $-, or the digits of ${10}; empty: none of them.
std::string ScriptParser::parameter_name() {
  const std::size_t begin = at_;
  const char c = here();
  if (c != '\0' && std::string_view("@*#?$!-").find(c) != std::string_view::npos) {
    ++at_;
    return std::string(1, c);
  }
  const bool digits = std::isdigit(static_cast<unsigned char>(c)) != 0;
  while (!done() && is_name_character(here()) && (!digits || std::isdigit(static_cast<unsigned char>(here())) != 0)) ++at_;
  return text_.substr(begin, at_ - begin);
}

// "$((": an expression, unless its end is none; then it is a subshell within $(...).
bool ScriptParser::arithmetic(ScriptWord& word, bool quoted) {
  const std::size_t begin = at_;
  ScriptPart part = this->part(ScriptPart::Kind::Arithmetic, quoted);
  at_ += 3;
  part.operand = std::make_shared<ScriptWord>(this->word(Stop::Arithmetic));
  if (here() != ')' || here(1) != ')') {
    if (done()) fault("'$((' is not closed");
    context_.budget.spend(1000);  // it is read again
    at_ = begin;
    return false;
  }
  at_ += 2;
  word.parts.push_back(std::move(part));
  return true;
}

void ScriptParser::braces(ScriptWord& word, bool quoted) {
  ScriptPart part = this->part(ScriptPart::Kind::Parameter, quoted);
  at_ += 2;
  const char next = here(1);
  if ((here() == '#' || here() == '!') && (is_name_character(next) || next == '@' || next == '*')) part.prefix = text_[at_++];
  part.name = parameter_name();
  if (part.name.empty()) fault("'${' is followed by no name");
  if (here() == '[') {
    ++at_;
    part.index = std::make_shared<ScriptWord>(this->word(Stop::Bracket));
    close("]", "[");
  }
  brace_operation(part, quoted);
  close("}", "${");
  word.parts.push_back(std::move(part));
}

void ScriptParser::brace_operation(ScriptPart& part, bool quoted) {
  if (here() == '}') return;
  static constexpr std::string_view kOperations[] = {":-", ":=", ":?", ":+", "-", "=",  "?", "+",  "##", "#", "%%",
                                                     "%",  "//", "/#", "/%", "/", "^^", "^", ",,", ",",  ":", "@"};
  for (const std::string_view operation : kOperations) {
    if (!looking_at(operation)) continue;
    part.operation = operation;
    at_ += operation.size();
    const bool replaces = operation[0] == '/', slices = operation == ":";
    // A pattern is one between quotes, too.
    const bool pattern = replaces || operation[0] == '#' || operation[0] == '%';
    part.operand = std::make_shared<ScriptWord>(word(replaces ? Stop::Slash
                                                     : slices ? Stop::Colon
                                                              : Stop::Brace,
                                                     quoted && !pattern));
    if ((replaces && here() == '/') || (slices && here() == ':')) {
      ++at_;
      part.second = std::make_shared<ScriptWord>(word(Stop::Brace, quoted));
    }
    if (operation == ":=" || operation == "=") context_.assigned.insert(part.name);
    return;
  }
  fault("'${' holds an operation that is not known");
}

void ScriptParser::substitution(ScriptWord& word, bool quoted) {
  const Nesting nesting(*this);
  ScriptPart part = this->part(ScriptPart::Kind::Command, quoted);
  const std::size_t begin = at_;
  at_ += 2;
  std::vector<Pending> outer;
  outer.swap(pending_);
  part.body = list();
  close(")", "$(");
  outer.swap(pending_);
  part.source = text_.substr(begin, at_ - begin);
  word.parts.push_back(std::move(part));
}

void ScriptParser::backquotes(ScriptWord& word, bool quoted) {
  const Nesting nesting(*this);
  ScriptPart part = this->part(ScriptPart::Kind::Command, quoted);
  const std::size_t begin = at_++;
  ShellText inner;
  while (!done() && here() != '`') {
    const char next = here(1);
    if (here() == '\\' && (next == '`' || next == '\\' || next == '$' || (quoted && next == '"'))) ++at_;
    inner.append(source_.cut(at_, at_ + 1));
    ++at_;
  }
  if (done()) {
    at_ = begin;
    fault("the backquote that begins here is not closed");
  }
  ++at_;
  part.source = text_.substr(begin, at_ - begin);
  part.body = ScriptParser(inner, context_, part.line, depth_ + 1).all();
  word.parts.push_back(std::move(part));
}

// <(command): a file whose name is not known.
void ScriptParser::process(ScriptWord& word) {
  const Nesting nesting(*this);
  ScriptPart part = this->part(ScriptPart::Kind::Process, false);
  at_ += 2;
  part.body = list();
  close(")", "<(");
  word.parts.push_back(std::move(part));
}

ScriptWord ScriptParser::regular_expression() {
  ScriptWord word;
  word.line = line();
  const std::size_t begin = at_;
  int depth = 0;
  while (!done() && here() != '\n' && (depth > 0 || (here() != ' ' && here() != '\t'))) {
    if (here() == '(') ++depth;
    if (here() == ')') --depth;
    ++at_;
  }
  literal(word, begin, at_, true);
  return word;
}

WordPointer ScriptParser::quoted_text() { return std::make_shared<ScriptWord>(word(Stop::End, true)); }

std::string literal_text(const ScriptWord& word) {
  std::string text;
  for (const ScriptPart& part : word.parts) {
    if (part.kind != ScriptPart::Kind::Literal) return "";
    text += part.literal.flat();
  }
  return text;
}

}  // namespace panpipe::jobs
