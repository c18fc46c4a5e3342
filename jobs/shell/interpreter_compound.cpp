// Compound commands: lists, pipelines, conditions, loops, functions.
#include "jobs/shell/interpreter.hpp"
#include "jobs/shell/shell_pattern.hpp"

namespace panpipe::jobs {

Outcome Interpreter::run_kind(const ScriptCommand& command) {
  switch (command.kind) {
    case ScriptCommand::Kind::Simple:
      return run_simple(command);
    case ScriptCommand::Kind::Pipeline:
      return run_pipeline(command);
    case ScriptCommand::Kind::AndOr:
      return run_and_or(command);
    case ScriptCommand::Kind::Subshell:
      return run_apart([&] { return run(command.bodies[0]); });
    case ScriptCommand::Kind::Group:
      return run(command.bodies[0]);
    case ScriptCommand::Kind::If:
      return run_if(command, 0);
    case ScriptCommand::Kind::For:
      return run_for(command);
    case ScriptCommand::Kind::Count:
      return run_count(command);
    case ScriptCommand::Kind::While:
      return run_while(command);
    case ScriptCommand::Kind::Case:
      return run_case(command);
    case ScriptCommand::Kind::Function:
      for (const CommandPointer& body : command.bodies[0]) state_.functions.set(command.name, body);
      return Outcome::of(true);
    case ScriptCommand::Kind::Arithmetic: {
      const ArithmeticResult result = arithmetic(single(command.words[0]), command.line);
      if (!result.unknowns.empty()) return Outcome::unknown(result.unknowns);
      return Outcome::of(result.value != 0);
    }
    case ScriptCommand::Kind::Test:
      return test_words(command.words, command.line);
  }
  return Outcome::of(true);
}

// Each command in a shell of its own; only the last one's output is the pipeline's.
Outcome Interpreter::run_pipeline(const ScriptCommand& command) {
  Outcome outcome;
  ShellText received;
  const ShellText* outer_input = input_;
  for (std::size_t i = 0; i < command.children.size(); ++i) {
    ShellText passed;
    ShellText* outer = output_;
    const bool last = i + 1 == command.children.size();
    if (!last) output_ = &passed;
    if (i > 0) input_ = &received;
    const auto part = [&] { return run(*command.children[i]); };
    outcome = command.children.size() == 1 ? part() : run_apart(part);
    output_ = outer;
    received = std::move(passed);
  }
  input_ = outer_input;
  return command.negated ? outcome.negated() : outcome;
}

Outcome Interpreter::run_and_or(const ScriptCommand& command) {
  Outcome outcome = run(*command.children[0]);
  for (std::size_t i = 1; i < command.children.size() && state_.flow == ScriptState::Flow::Runs; ++i) {
    const bool alternative = command.ors[i - 1];
    Outcome condition = alternative ? outcome.negated() : outcome;
    // A program is expected to succeed, where nothing asks for its answer.
    if (outcome.external) condition.assumed = !alternative;
    Outcome second;
    run_either(
        condition, [&] { return second = run(*command.children[i]); }, [] { return Outcome::of(true); });
    if (condition.truth == Outcome::Truth::No) continue;
    outcome = alternative ? either(outcome, second) : both(outcome, second);
  }
  return outcome;
}

Outcome Interpreter::run_if(const ScriptCommand& command, std::size_t branch) {
  if (branch == command.conditions.size())
    return branch < command.bodies.size() ? run(command.bodies[branch]) : Outcome::of(true);
  const Level level(*this);
  const Outcome condition = run(command.conditions[branch]);
  if (state_.flow != ScriptState::Flow::Runs) return condition;
  return run_either(
      condition, [&] { return run(command.bodies[branch]); }, [&] { return run_if(command, branch + 1); });
}

Outcome Interpreter::run_case(const ScriptCommand& command) {
  return run_cases(command, single(command.words[0]), 0, Outcome::of(true));
}

// Whether one of the arm's patterns matches.
Outcome Interpreter::matches_arm(const ScriptCase& arm, const ShellText& subject) {
  Outcome matches = Outcome::of(false);
  for (const ScriptWord& word : arm.patterns) {
    std::vector<int> unknowns = subject.unknowns();
    const std::string wanted = pattern(word, unknowns);
    budget_.spend((subject.size() + 1) * (wanted.size() + 1));
    if (wanted == "*")
      matches = Outcome::of(true);
    else if (!unknowns.empty())
      matches = either(matches, Outcome::unknown(unknowns));
    else if (is_extended_pattern(wanted))
      matches = either(matches,
                       Outcome::unknown({unknown(Unknown::Kind::Output, "case", word.line, "a pattern that is not followed")}));
    else
      matches = either(matches, Outcome::of(matches_pattern(subject.plain(), wanted)));
  }
  return matches;
}

// `before`: what it is where no arm matches.
Outcome Interpreter::run_cases(const ScriptCommand& command, const ShellText& subject, std::size_t arm, const Outcome& before) {
  Outcome matches = Outcome::of(false);
  for (; arm < command.cases.size(); ++arm) {
    matches = matches_arm(command.cases[arm], subject);
    if (matches.truth != Outcome::Truth::No) break;
  }
  if (arm == command.cases.size()) return before;
  const Level level(*this);
  const auto body = [&] {
    std::size_t last = arm;
    Outcome outcome = run(command.cases[last].body);
    while (command.cases[last].falls_through && last + 1 < command.cases.size()) outcome = run(command.cases[++last].body);
    return command.cases[last].tries_on ? run_cases(command, subject, last + 1, outcome) : outcome;
  };
  return run_either(matches, body, [&] { return run_cases(command, subject, arm + 1, before); });
}

// After a pass of a loop's body: whether there is another.
bool Interpreter::loop_goes_on() {
  using Flow = ScriptState::Flow;
  if (state_.flow != Flow::Breaks && state_.flow != Flow::Continues) return state_.flow == Flow::Runs;
  const bool goes_on = state_.flow == Flow::Continues && state_.levels == 1;
  if (--state_.levels <= 0) state_.flow = Flow::Runs;
  return goes_on;
}

Outcome Interpreter::run_for(const ScriptCommand& command) {
  std::vector<ShellText> values;
  if (command.in_list) {
    for (Field& field : expand(command.words)) values.push_back(std::move(field.text));
  } else {
    for (const auto& [number, text] : state_.arguments) values.push_back(text);
  }
  Outcome outcome;
  for (const ShellText& value : values) {
    set(command.name, value);
    outcome = run(command.bodies[0]);
    if (!loop_goes_on() || options_.defines.contains(command.name)) break;
  }
  return outcome;
}

Outcome Interpreter::run_count(const ScriptCommand& command) {
  const auto value = [&](std::size_t i) { return arithmetic(single(command.words[i]), command.line); };
  value(0);
  Outcome outcome;
  while (true) {
    const std::string condition = single(command.words[1]).flat();
    const bool endless = condition.find_first_not_of(" \t\n") == std::string::npos;
    const ArithmeticResult goes_on = value(1);
    if (!goes_on.unknowns.empty())
      return run_either(
          Outcome::unknown(goes_on.unknowns), [&] { return run(command.bodies[0]); }, [] { return Outcome(); });
    if (goes_on.fault || (!endless && goes_on.value == 0)) break;
    outcome = run(command.bodies[0]);
    if (!loop_goes_on()) break;
    value(2);
  }
  return outcome;
}

Outcome Interpreter::run_while(const ScriptCommand& command) {
  Outcome outcome;
  while (true) {
    Outcome condition = run(command.conditions[0]);
    if (state_.flow != ScriptState::Flow::Runs) break;
    if (command.until) condition = condition.negated();
    if (condition.truth == Outcome::Truth::Unknown && condition.assumed && condition.note < 0)
      condition = Outcome::of(*condition.assumed);
    if (condition.truth == Outcome::Truth::Unknown) {
      outcome = run_either(
          condition, [&] { return run(command.bodies[0]); }, [] { return Outcome(); });
      loop_goes_on();
      break;
    }
    if (condition.truth == Outcome::Truth::No) break;
    outcome = run(command.bodies[0]);
    if (!loop_goes_on()) break;
  }
  return outcome;
}

Outcome Interpreter::run_function(const CommandPointer& function, const std::vector<Field>& words) {
  const Level level(*this);
  const std::map<int, ShellText> arguments = state_.arguments;
  const int shifted = state_.shifted;
  const bool all = state_.all_arguments;
  budget_.spend(words.size() + arguments.size());
  take_arguments({words.begin() + 1, words.end()});
  state_.hidden.emplace_back();
  Outcome outcome = run(*function);
  for (const auto& [name, variable] : state_.hidden.back()) state_.variables.set(name, variable);
  state_.hidden.pop_back();
  state_.arguments = arguments;
  state_.shifted = shifted, state_.all_arguments = all;
  if (state_.flow == ScriptState::Flow::Returns) state_.flow = ScriptState::Flow::Runs;
  return outcome;
}

}  // namespace panpipe::jobs
