#include "jobs/shell/script_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "jobs/shell/script_parser_nesting.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::array<std::string_view, 21> kReserved = {"if", "then", "elif",  "else",  "fi",   "for",    "in",
                                                        "do", "done", "while", "until", "case", "esac",   "function",
                                                        "{",  "}",    "!",     "[[",    "time", "select", "coproc"};

}  // namespace

ScriptParser::ScriptParser(const ShellText& text, ParseContext& context, int line, int depth)
    : source_(text), text_(source_.text()), context_(context), line_(line), depth_(depth) {
  context_.budget.spend(text_.size());
}

bool ScriptParser::next(CommandList& commands) {
  skip_newlines();
  if (done()) return false;
  list_until(commands, true);
  if (!done() && here() != '\n') fault(fmt::format("'{}' is not expected here", here()));
  if (!done()) newline();
  return true;
}

CommandList ScriptParser::all() {
  CommandList commands;
  while (next(commands)) {
  }
  return commands;
}

void ScriptParser::close(std::string_view bracket, const char* opened) {
  if (!looking_at(bracket)) fault(fmt::format("'{}' is not closed", opened));
  at_ += bracket.size();
}

// Blanks, joined lines and a comment.
void ScriptParser::skip_blanks() {
  while (!done()) {
    if (here() == ' ' || here() == '\t')
      ++at_;
    else if (here() == '\\' && here(1) == '\n')
      at_ += 2;
    else
      break;
  }
  if (here() == '#')
    while (!done() && here() != '\n') ++at_;
}

void ScriptParser::skip_newlines() {
  for (skip_blanks(); here() == '\n'; skip_blanks()) newline();
}

// The end of a line, with the here-documents that begin behind it.
void ScriptParser::newline() {
  ++at_;
  for (Pending& pending : pending_) here_document(pending);
  pending_.clear();
}

void ScriptParser::here_document(Pending& pending) {
  ShellText body;
  while (!done()) {
    std::size_t begin = at_;
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    if (pending.strip)
      while (begin < end && text_[begin] == '\t') ++begin;
    at_ = std::min(end + 1, text_.size());
    if (std::string_view(text_).substr(begin, end - begin) == pending.end) break;
    body.append(source_.cut(begin, at_));
  }
  if (!pending.quoted) {
    *pending.target = *ScriptParser(body, context_, pending.line, depth_ + 1).quoted_text();
    return;
  }
  ScriptPart text = part(ScriptPart::Kind::Literal, true);
  text.literal = body;
  pending.target->parts = {text};
}

std::string ScriptParser::reserved() const {
  if (here() == '{' || here() == '}' || here() == '!') {
    const char next = here(1);
    const bool alone =
        next == '\0' || next == ' ' || next == '\t' || next == '\n' || next == ';' || next == ')' || next == '&' || next == '|';
    return alone || (here() == '}' && next == '>') ? std::string(1, here()) : "";
  }
  std::size_t end = at_;
  while (end < text_.size() && (std::isalpha(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '[')) ++end;
  const std::string_view word = std::string_view(text_).substr(at_, end - at_);
  if (std::find(kReserved.begin(), kReserved.end(), word) == kReserved.end()) return "";
  const char next = end < text_.size() ? text_[end] : '\n';
  return std::string_view(" \t\n;&|()<>\\").find(next) == std::string_view::npos ? "" : std::string(word);
}

bool ScriptParser::take(std::string_view reserved_word) {
  skip_newlines();
  if (reserved() != reserved_word) return false;
  at_ += reserved_word.size();
  return true;
}

void ScriptParser::expect(std::string_view reserved_word) {
  if (!take(reserved_word)) fault(fmt::format("'{}' is missing", reserved_word));
}

bool ScriptParser::ends_list() const {
  if (done() || here() == ')' || looking_at(";;") || looking_at(";&")) return true;
  static const std::set<std::string> kEnds = {"then", "elif", "else", "fi", "do", "done", "esac", "}"};
  return kEnds.contains(reserved());
}

CommandList ScriptParser::list() {
  const Nesting nesting(*this);
  CommandList commands;
  list_until(commands, false);
  return commands;
}

void ScriptParser::list_until(CommandList& commands, bool one_line) {
  while (true) {
    if (one_line)
      skip_blanks();
    else
      skip_newlines();
    if (done() || (one_line && here() == '\n') || ends_list()) return;
    CommandPointer command = and_or();
    skip_blanks();
    if (here() == '&' && here(1) != '&') {
      auto copy = std::make_shared<ScriptCommand>(*command);
      copy->background = true;
      command = copy;
      ++at_;
    } else if (here() == ';' && here(1) != ';' && here(1) != '&') {
      ++at_;
    } else if (!done() && here() != '\n' && !ends_list()) {
      fault(fmt::format("'{}' is not expected here", here()));
    }
    commands.push_back(std::move(command));
  }
}

std::shared_ptr<ScriptCommand> ScriptParser::begin(ScriptCommand::Kind kind) const {
  context_.budget.spend(1);
  auto command = std::make_shared<ScriptCommand>();
  command->kind = kind;
  command->line = line();
  command->file = source_.at(at_).file;
  return command;
}

CommandPointer ScriptParser::and_or() {
  auto list = begin(ScriptCommand::Kind::AndOr);
  list->children.push_back(pipeline());
  for (skip_blanks(); looking_at("&&") || looking_at("||"); skip_blanks()) {
    list->ors.push_back(here() == '|');
    at_ += 2;
    skip_newlines();
    list->children.push_back(pipeline());
  }
  return list->children.size() == 1 ? list->children.front() : list;
}

CommandPointer ScriptParser::pipeline() {
  auto pipe = begin(ScriptCommand::Kind::Pipeline);
  skip_blanks();
  if (reserved() == "time") {
    at_ += 4;
    skip_blanks();
    if (looking_at("-p ")) at_ += 3;
    skip_blanks();
  }
  while (reserved() == "!") {
    pipe->negated = !pipe->negated;
    ++at_;
    skip_blanks();
  }
  pipe->children.push_back(command());
  for (skip_blanks(); here() == '|' && here(1) != '|'; skip_blanks()) {
    at_ += here(1) == '&' ? 2 : 1;
    skip_newlines();
    pipe->children.push_back(command());
  }
  return pipe->children.size() == 1 && !pipe->negated ? pipe->children.front() : pipe;
}

CommandPointer ScriptParser::command() {
  const Nesting nesting(*this);
  if (auto found = compound()) {
    redirects(*found);
    return found;
  }
  const std::string word = reserved();
  if (word == "function") {
    at_ += word.size();
    skip_blanks();
    const std::string name = literal_text(this->word(Stop::Word));
    skip_blanks();
    if (here() == '(' && here(1) == ')') at_ += 2;
    return function(name);
  }
  if (!word.empty() && word != "in") fault(fmt::format("'{}' is not expected here", word));
  return simple();
}

// A compound command; none: a simple one stands here.
std::shared_ptr<ScriptCommand> ScriptParser::compound() {
  if (here() == '(' && here(1) == '(') {
    const std::size_t begin_at = at_;
    auto expression = begin(ScriptCommand::Kind::Arithmetic);
    at_ += 2;
    expression->words.push_back(word(Stop::Arithmetic));
    if (here() == ')' && here(1) == ')') {
      at_ += 2;
      return expression;
    }
    if (done()) fault("'((' is not closed");
    context_.budget.spend(1000);  // it is read again
    at_ = begin_at;
  }
  if (here() == '(') {
    auto shell = begin(ScriptCommand::Kind::Subshell);
    ++at_;
    shell->bodies.push_back(list());
    close(")", "(");
    return shell;
  }
  const std::string word = reserved();
  if (word == "{") {
    auto group = begin(ScriptCommand::Kind::Group);
    ++at_;
    group->bodies.push_back(list());
    expect("}");
    return group;
  }
  if (word == "if") return if_clause();
  if (word == "for") return for_clause();
  if (word == "while" || word == "until") return while_clause();
  if (word == "case") return case_clause();
  if (word == "[[") return test_clause();
  return nullptr;
}

std::shared_ptr<ScriptCommand> ScriptParser::if_clause() {
  auto command = begin(ScriptCommand::Kind::If);
  expect("if");
  do {
    command->conditions.push_back(list());
    if (command->conditions.back().empty()) fault("a condition is missing");
    expect("then");
    command->bodies.push_back(list());
  } while (take("elif"));
  if (take("else")) command->bodies.push_back(list());
  expect("fi");
  return command;
}

std::shared_ptr<ScriptCommand> ScriptParser::for_clause() {
  auto loop = begin(ScriptCommand::Kind::For);
  expect("for");
  skip_blanks();
  if (here() == '(' && here(1) == '(') {
    count_clause(*loop);
  } else {
    loop->name = literal_text(word(Stop::Word));
    context_.assigned.insert(loop->name);
    if (take("in")) {
      loop->in_list = true;
      for (skip_blanks(); !done() && here() != ';' && here() != '\n'; skip_blanks()) {
        if (ends_word(Stop::Word, 0)) fault(fmt::format("'{}' is not expected here", here()));
        loop->words.push_back(word(Stop::Word));
      }
    }
  }
  skip_blanks();
  if (here() == ';') ++at_;
  const bool braces = !take("do");
  if (braces) expect("{");
  loop->bodies.push_back(list());
  expect(braces ? "}" : "done");
  return loop;
}

// for ((first; condition; next))
void ScriptParser::count_clause(ScriptCommand& loop) {
  loop.kind = ScriptCommand::Kind::Count;
  at_ += 2;
  ScriptWord whole = word(Stop::Arithmetic);
  close("))", "((");
  loop.words.emplace_back();
  for (ScriptPart& part : whole.parts) {
    if (part.kind != ScriptPart::Kind::Literal) {
      loop.words.back().parts.push_back(std::move(part));
      continue;
    }
    const std::string text = part.literal.flat();
    for (std::size_t begin = 0;;) {
      const std::size_t end = text.find(';', begin);
      ScriptPart piece = part;
      piece.literal = ShellText(std::string_view(text).substr(begin, end == std::string::npos ? end : end - begin));
      loop.words.back().parts.push_back(std::move(piece));
      if (end == std::string::npos) break;
      loop.words.emplace_back();
      begin = end + 1;
    }
  }
  if (loop.words.size() != 3) fault("'for ((' has not three expressions");
}

std::shared_ptr<ScriptCommand> ScriptParser::while_clause() {
  auto loop = begin(ScriptCommand::Kind::While);
  loop->until = reserved() == "until";
  at_ += 5;
  loop->conditions.push_back(list());
  expect("do");
  loop->bodies.push_back(list());
  expect("done");
  return loop;
}

std::shared_ptr<ScriptCommand> ScriptParser::case_clause() {
  auto command = begin(ScriptCommand::Kind::Case);
  expect("case");
  skip_blanks();
  command->words.push_back(word(Stop::Word));
  expect("in");
  while (!take("esac")) {
    if (done()) fault("'esac' is missing");
    ScriptCase arm;
    if (here() == '(') ++at_;
    do {
      skip_blanks();
      arm.patterns.push_back(word(Stop::Word));
      skip_blanks();
    } while (here() == '|' && ++at_ != 0);
    if (here() != ')') fault("a pattern of 'case' has no ')'");
    ++at_;
    arm.body = list();
    arm.falls_through = looking_at(";&");
    arm.tries_on = looking_at(";;&");
    at_ += arm.tries_on ? 3 : arm.falls_through || looking_at(";;") ? 2 : 0;
    command->cases.push_back(std::move(arm));
  }
  return command;
}

CommandPointer ScriptParser::function(const std::string& name) {
  auto command = begin(ScriptCommand::Kind::Function);
  command->name = name;
  skip_newlines();
  auto body = compound();
  if (!body || name.empty()) fault("a function has no body");
  redirects(*body);
  command->bodies.push_back({body});
  return command;
}

// [[ ... ]]: its words and operators, in order; an operator is a word without quotes.
std::shared_ptr<ScriptCommand> ScriptParser::test_clause() {
  auto command = begin(ScriptCommand::Kind::Test);
  at_ += 2;
  while (true) {
    skip_newlines();
    if (done()) fault("']]' is missing");
    if (looking_at("]]")) break;
    const bool two = looking_at("&&") || looking_at("||");
    if (two || here() == '(' || here() == ')' || here() == '<' || here() == '>') {
      ScriptWord operation;
      literal(operation, at_, at_ + (two ? 2 : 1), false);
      at_ += two ? 2 : 1;
      command->words.push_back(std::move(operation));
      continue;
    }
    if (ends_word(Stop::Word, 0)) fault(fmt::format("'{}' is not expected here", here()));
    command->words.push_back(word(Stop::Word));
    if (literal_text(command->words.back()) != "=~") continue;
    skip_blanks();
    command->words.push_back(regular_expression());
  }
  at_ += 2;
  return command;
}

}  // namespace panpipe::jobs
