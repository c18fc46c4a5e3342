// Simple commands: assignments, words, redirections.
#include <fmt/format.h>

#include <cctype>

#include "jobs/shell/script_parser_nesting.hpp"

namespace panpipe::jobs {

bool is_declaration(const std::string& command) {
  static const std::set<std::string> kCommands = {"export", "local", "readonly", "declare", "typeset"};
  return kCommands.contains(command);
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
  if (!is_name_character(here()) || std::isdigit(static_cast<unsigned char>(here())) != 0) return false;
  ScriptAssignment assignment;
  assignment.line = line();
  while (!done() && is_name_character(here())) ++at_;
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
