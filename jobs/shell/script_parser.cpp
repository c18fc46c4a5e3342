#include "jobs/shell/script_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "jobs/shell/script_parser_nesting.hpp"

namespace panpipe::jobs {
namespace {

bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

constexpr std::array<std::string_view, 21> kReserved = {"if", "then", "elif",  "else",  "fi",   "for",    "in",
                                                        "do", "done", "while", "until", "case", "esac",   "function",
                                                        "{",  "}",    "!",     "[[",    "time", "select", "coproc"};

}  // namespace

bool is_declaration(const std::string& command) {
  static const std::set<std::string> kCommands = {"export", "local", "readonly", "declare", "typeset"};
  return kCommands.contains(command);
}

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
    if (here() != ')') fault("'(' is not closed");
    ++at_;
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
  if (here() != ')' || here(1) != ')') fault("'((' is not closed");
  at_ += 2;
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
    arm.falls_through = looking_at(";&") || looking_at(";;&");
    if (looking_at(";;&"))
      at_ += 3;
    else if (looking_at(";;") || looking_at(";&"))
      at_ += 2;
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

CommandPointer ScriptParser::simple() {
  auto command = begin(ScriptCommand::Kind::Simple);
  bool declares = false;
  while (part_of_simple(*command, declares)) {
    const bool first = command->words.size() == 1 && command->assignments.empty();
    if (!first || here() != '(' || literal_text(command->words[0]).empty()) continue;
    std::size_t close = at_ + 1;
    while (close < text_.size() && text_[close] == ' ') ++close;
    if (close >= text_.size() || text_[close] != ')') continue;
    at_ = close + 1;
    return function(literal_text(command->words[0]));
  }
  if (command->words.empty() && command->assignments.empty() && command->redirects.empty())
    fault(done() ? "the script ends in the middle of a command" : fmt::format("'{}' is not expected here", here()));
  return command;
}

bool ScriptParser::part_of_simple(ScriptCommand& command, bool& declares) {
  skip_blanks();
  if (done() || here() == '\n') return false;
  if (redirect(command)) return true;
  if ((command.words.empty() || declares) && assignment(command)) return true;
  if (ends_word(Stop::Word, 0)) return false;
  command.words.push_back(word(Stop::Word));
  if (command.words.size() == 1) declares = is_declaration(literal_text(command.words[0]));
  const bool named = declares || (command.words.size() > 1 && literal_text(command.words[0]) == "read");
  if (named) context_.assigned.insert(literal_text(command.words.back()));
  // NAME ( ): a function's head may have a blank.
  if (command.words.size() == 1 && here() == ' ' && here(1) == '(' && here(2) == ')') ++at_;
  return true;
}

// NAME=value, NAME+=value, NAME[index]=value, NAME=(elements)
bool ScriptParser::assignment(ScriptCommand& command) {
  const std::size_t begin = at_;
  if (!is_name_letter(here()) || std::isdigit(static_cast<unsigned char>(here())) != 0) return false;
  ScriptAssignment assignment;
  assignment.line = line();
  while (!done() && is_name_letter(here())) ++at_;
  assignment.name = text_.substr(begin, at_ - begin);
  if (here() == '[') {
    ++at_;
    assignment.index = std::make_shared<ScriptWord>(word(Stop::Bracket));
    if (here() == ']') ++at_;
  }
  assignment.append = here() == '+' && here(1) == '=';
  if (assignment.append) ++at_;
  if (here() != '=') {
    at_ = begin;
    return false;
  }
  ++at_;
  context_.assigned.insert(assignment.name);
  if (here() == '(') {
    elements(assignment);
  } else if (!done() && !ends_word(Stop::Word, 0)) {
    assignment.value = word(Stop::Word);
  }
  command.assignments.push_back(std::move(assignment));
  return true;
}

void ScriptParser::elements(ScriptAssignment& assignment) {
  const Nesting nesting(*this);
  assignment.array = true;
  ++at_;
  for (skip_newlines(); !done() && here() != ')'; skip_newlines()) {
    ScriptElement element;
    const std::size_t begin = at_;
    if (here() == '[') {
      ++at_;
      element.index = std::make_shared<ScriptWord>(word(Stop::Bracket));
      if (here() == ']' && here(1) == '=') {
        at_ += 2;
      } else {
        element.index = nullptr;
        at_ = begin;
      }
    }
    if (ends_word(Stop::Word, 0) && !element.index) fault(fmt::format("'{}' is not expected in an array", here()));
    element.value = word(Stop::Word);
    assignment.elements.push_back(std::move(element));
  }
  if (done()) fault("the array that begins here is not closed");
  ++at_;
}

void ScriptParser::redirects(ScriptCommand& command) {
  for (skip_blanks(); redirect(command); skip_blanks()) {
  }
}

bool ScriptParser::redirect(ScriptCommand& command) {
  std::size_t digits = at_;
  while (digits < text_.size() && std::isdigit(static_cast<unsigned char>(text_[digits])) != 0) ++digits;
  static constexpr std::string_view kOperations[] = {"&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">&", ">|", ">"};
  for (const std::string_view operation : kOperations) {
    if (text_.compare(digits, operation.size(), operation) != 0 || (operation[0] == '&' && digits != at_)) continue;
    // <( and >( begin a word.
    if (operation.size() == 1 && digits + 1 < text_.size() && text_[digits + 1] == '(') return false;
    ScriptRedirect redirect;
    if (digits > at_ && digits - at_ < 6) redirect.descriptor = std::stoi(text_.substr(at_, digits - at_));
    redirect.operation = operation;
    at_ = digits + operation.size();
    skip_blanks();
    redirect.target = std::make_shared<ScriptWord>();
    if (operation == "<<" || operation == "<<-")
      here_word(redirect, operation == "<<-");
    else
      *redirect.target = word(Stop::Word);
    command.redirects.push_back(std::move(redirect));
    return true;
  }
  return false;
}

void ScriptParser::here_word(ScriptRedirect& redirect, bool strip) {
  const int begins = line();
  const ScriptWord end = word(Stop::Word);
  bool quoted = false;
  for (const ScriptPart& part : end.parts) quoted |= part.quoted;
  redirect.operation = "<<";
  pending_.push_back({redirect.target, literal_text(end), quoted, strip, begins});
}

}  // namespace panpipe::jobs
