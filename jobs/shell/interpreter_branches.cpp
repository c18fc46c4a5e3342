// Where a condition is not known: both ways from one state, and where they meet.
#include <algorithm>

#include "jobs/shell/interpreter.hpp"

namespace panpipe::jobs {

// Runs the branch that is taken; both, each from the same state, if that is not known.
Outcome Interpreter::run_either(const Outcome& condition, const std::function<Outcome()>& yes,
                                const std::function<Outcome()>& no) {
  if (condition.truth != Outcome::Truth::Unknown) {
    const auto &taken = condition.truth == Outcome::Truth::Yes ? yes : no,
               &left = condition.truth == Outcome::Truth::Yes ? no : yes;
    return condition.presumed ? run_presumed(taken, left) : taken();
  }
  const int line = line_;
  copy_cost();
  ScriptState before = state_;
  const std::size_t depends = depends_.size();
  if (!condition.assumed) depends_.insert(depends_.end(), condition.why.begin(), condition.why.end());
  run_way(yes, condition.likely == false);
  ScriptState taken = std::move(state_);
  state_ = std::move(before);
  run_way(no, condition.likely == true);
  depends_.resize(depends);
  ScriptState other = std::move(state_);
  if (condition.assumed && !*condition.assumed) std::swap(taken, other);
  merge(std::move(taken), other, condition, line);
  return Outcome::unknown(condition.why);
}

void Interpreter::run_way(const std::function<Outcome()>& way, bool unlikely) {
  unlikely_ += unlikely ? 1 : 0;
  way();
  unlikely_ -= unlikely ? 1 : 0;
}

// A script that starts nothing and ends where something is not set needs it.
Outcome Interpreter::run_presumed(const std::function<Outcome()>& taken, const std::function<Outcome()>& left) {
  copy_cost();
  ScriptState before = state_;
  const std::size_t started = started_.size();
  const Outcome outcome = taken();
  if (state_.flow != ScriptState::Flow::Exits || started_.size() > started) return outcome;
  state_ = std::move(before);
  return left();
}

namespace {

// The bytes that both begin with, up to a blank: what follows may be any number of words.
std::size_t common_words(const std::string& a, const std::string& b) {
  std::size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
  const auto ends = [&](const std::string& text) { return same == text.size() || text[same] == ' ' || text[same] == '\n'; };
  if (ends(a) && ends(b)) return same;
  while (same > 0 && a[same - 1] != ' ' && a[same - 1] != '\n') --same;
  return same;
}

}  // namespace

// The text where two ways meet: what both begin with, and then an unknown.
ShellText Interpreter::merged_text(const std::string& name, const ShellText& a, const ShellText& b, const Outcome& condition,
                                   int line) {
  if (a.same_as(b)) return a;
  budget_.spend(a.size() + b.size());
  ShellText result;
  ShellText rests[2] = {a, b};
  if (a.known() && b.known()) {
    const std::size_t same = common_words(a.plain(), b.plain());
    result = a.known_part(0, same);
    if (same > 0 && same == std::min(a.size(), b.size())) result.append(" ");
    for (ShellText& rest : rests) rest = rest.known_part(same, rest.size());
  }
  std::vector<std::string> either;
  for (const ShellText& rest : rests) either.push_back(spelled(rest));
  for (const int why : condition.why) {
    const Unknown& cause = unknowns_[static_cast<std::size_t>(why)];
    const bool variable = cause.kind != Unknown::Kind::Output;
    Unknown merged{Unknown::Kind::Merged, cause.name};
    if (!variable) merged.name = {name, line, files_.name(file_), cause.name.why, {}};
    merged.name.either = either;
    result.append(ShellText::of_unknown(add_unknown(std::move(merged))));
  }
  return result;
}

void Interpreter::merge_variable(const std::string& name, const VariablePointer& a, const VariablePointer& b,
                                 const Outcome& condition, int line) {
  static const ScriptVariable kNone;
  const ScriptVariable &taken = a ? *a : kNone, &other = b ? *b : kNone;
  if (taken.same_as(other)) return;
  auto merged = std::make_shared<ScriptVariable>(taken);
  merged->exported = taken.exported || other.exported;
  if (condition.assumed) {
    if (condition.note < 0) return;
    ShellPiece mark;
    mark.note = condition.note;
    (merged->is_array && !merged->items.empty() ? merged->items.rbegin()->second : merged->text).append(mark);
  } else if (taken.is_array || other.is_array) {
    std::map<long long, ShellText> same;
    for (const auto& [index, text] : taken.items) {
      const auto found = other.items.find(index);
      if (found == other.items.end() || !found->second.same_as(text)) break;
      same[index] = text;
    }
    const auto rest = [&](const ScriptVariable& variable) {
      ShellText all;
      for (const auto& [index, text] : variable.items) {
        if (same.contains(index)) continue;
        if (!all.empty()) all.append(" ");
        all.append(text);
      }
      return all;
    };
    const long long next = same.empty() ? 0 : same.rbegin()->first + 1;
    const ShellText tail = merged_text(name, rest(taken), rest(other), condition, line);
    same[next] = ShellText::of_unknown(tail.unknowns().empty() ? condition.why.front() : tail.unknowns().back());
    merged->is_array = true;
    merged->items = std::move(same);
  } else {
    merged->text = merged_text(name, taken.text, other.text, condition, line);
  }
  state_.variables.set(name, merged);
}

// `taken` is the branch of an assumed condition.
void Interpreter::merge(ScriptState taken, ScriptState other, const Outcome& condition, int line) {
  using Flow = ScriptState::Flow;
  if (taken.flow != other.flow && (taken.flow == Flow::Runs || other.flow == Flow::Runs)) {
    const bool exits = taken.flow == Flow::Exits || other.flow == Flow::Exits;
    if (exits || !condition.assumed) {
      state_ = taken.flow == Flow::Runs ? std::move(taken) : std::move(other);
      return;
    }
  }
  const std::set<std::string> names = taken.variables.names_that_differ(other.variables);
  budget_.spend(names.size());
  state_ = std::move(taken);
  for (const std::string& name : names)
    merge_variable(name, state_.variables.find(name), other.variables.find(name), condition, line);
  for (const std::string& name : state_.functions.names_that_differ(other.functions))
    if (!state_.functions.find(name)) state_.functions.set(name, other.functions.find(name));
}

}  // namespace panpipe::jobs
