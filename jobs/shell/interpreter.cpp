#include "jobs/shell/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "base/text/did_you_mean.hpp"
#include "jobs/shell/shell_pattern.hpp"

namespace panpipe::jobs {
namespace {

constexpr int kMostLevels = 250;
constexpr std::size_t kMostUnknowns = 2000;

}  // namespace

Interpreter::Level::Level(Interpreter& interpreter) : interpreter_(interpreter) {
  if (interpreter_.level_ >= kMostLevels)
    throw InputError(fmt::format("{}:{}: commands, functions or files stand more than {} deep in each other", interpreter_.name_,
                                 interpreter_.line_, kMostLevels));
  ++interpreter_.level_;
}

Interpreter::Interpreter(const LaunchOptions& options, const std::string& name)
    : options_(options), name_(name), budget_(name), context_{files_, budget_} {
  for (const auto& [number, text] : options.arguments) state_.arguments[number] = ShellText(text);
  state_.all_arguments = options.all_arguments;
  for (const auto& [defined, text] : options.defines) {
    auto variable = std::make_shared<ScriptVariable>();
    variable->text = ShellText(text);
    variable->exported = true;
    state_.variables[defined] = variable;
  }
  if (options.folder.empty()) return;
  std::error_code fault;
  folder_ = std::filesystem::canonical(options.folder, fault).string();
  if (fault) folder_.clear();
  state_.folder = folder_;
  if (!folder_.empty()) script_path_ = (std::filesystem::path(folder_) / std::filesystem::path(name).filename()).string();
}

void Interpreter::run_file(const std::string& text, const std::string& name) {
  const Level level(*this);
  const int file = files_.add(text, name), outer = file_;
  file_ = file;
  if (file == 0) state_machine(files_.text(0));
  ShellPiece whole;
  whole.text = files_.text(file), whole.file = file;
  ShellText source;
  source.append(std::move(whole));
  ScriptParser parser(source, context_, 1);
  try {
    CommandList commands;
    while (state_.flow == ScriptState::Flow::Runs && parser.next(commands)) {
      run(commands);
      commands.clear();
    }
  } catch (const ScriptFault& fault) {
    remarks_.push_back(fmt::format("{}:{}: {}; a shell stops here", name, fault.line, without_controls(fault.what())));
  }
  file_ = outer;
}

// Text of eval or `bash -c`.
Outcome Interpreter::run_text(const ShellText& text, int line) {
  const Level level(*this);
  ScriptParser parser(text, context_, line);
  Outcome outcome;
  try {
    CommandList commands;
    while (state_.flow == ScriptState::Flow::Runs && parser.next(commands)) {
      outcome = run(commands);
      commands.clear();
    }
  } catch (const ScriptFault& fault) {
    remarks_.push_back(fmt::format("{}:{}: in text that is run as commands: {}", name_, line, without_controls(fault.what())));
  }
  return outcome;
}

void Interpreter::copy_cost() { budget_.spend(state_.variables.size() + state_.functions.size() + state_.arguments.size() + 1); }

Outcome Interpreter::run(const CommandList& commands) {
  Outcome outcome;
  for (const CommandPointer& command : commands) {
    if (state_.flow != ScriptState::Flow::Runs) break;
    outcome = command->background ? run_apart([&] { return run(*command); }) : run(*command);
  }
  return outcome;
}

Outcome Interpreter::run(const ScriptCommand& command) {
  const Level level(*this);
  budget_.spend(100);  // so that loops end soon
  line_ = command.line;
  if (!redirects_output(command)) return run_kind(command);
  ShellText output;
  ShellText* outer = output_;
  output_ = &output;
  Outcome outcome = run_kind(command);
  output_ = outer;
  redirect_output(command, output);
  return outcome;
}

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
      for (const CommandPointer& body : command.bodies[0]) state_.functions[command.name] = body;
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

Outcome Interpreter::run_apart(const std::function<Outcome()>& commands) {
  const Level level(*this);
  copy_cost();
  ScriptState before = state_;
  Outcome outcome = commands();
  state_ = std::move(before);
  return outcome;
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

// Runs the branch that is taken; both, each from the same state, if that is not known.
Outcome Interpreter::run_either(const Outcome& condition, const std::function<Outcome()>& yes,
                                const std::function<Outcome()>& no) {
  if (condition.truth != Outcome::Truth::Unknown) return condition.truth == Outcome::Truth::Yes ? yes() : no();
  const int line = line_;
  copy_cost();
  ScriptState before = state_;
  const std::size_t depends = depends_.size();
  if (!condition.assumed) depends_.insert(depends_.end(), condition.why.begin(), condition.why.end());
  yes();
  ScriptState taken = std::move(state_);
  state_ = std::move(before);
  no();
  depends_.resize(depends);
  ScriptState other = std::move(state_);
  if (condition.assumed && !*condition.assumed) std::swap(taken, other);
  merge(std::move(taken), other, condition, line);
  return Outcome::unknown(condition.why);
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
    if (unknowns_.size() >= kMostUnknowns)
      throw InputError(fmt::format("{}: more than {} values are not known", name_, kMostUnknowns));
    Unknown merged{Unknown::Kind::Merged, cause.name};
    if (!variable) merged.name = {name, line, files_.name(file_), cause.name.why, {}};
    merged.name.either = either;
    unknowns_.push_back(std::move(merged));
    result.append(ShellText::of_unknown(static_cast<int>(unknowns_.size()) - 1));
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
  state_.variables[name] = merged;
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
  std::set<std::string> names;
  for (const ScriptState* state : {&taken, &other})
    for (const auto& [name, variable] : state->variables) names.insert(name);
  budget_.spend(names.size());
  const Variables of_taken = taken.variables;
  state_ = std::move(taken);
  for (const std::string& name : names) {
    const auto of = [&name](const Variables& variables) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second;
    };
    const VariablePointer first = of(of_taken), second = of(other.variables);
    if (first != second) merge_variable(name, first, second, condition, line);
  }
  for (auto& [name, body] : other.functions) state_.functions.emplace(name, body);
}

Outcome Interpreter::run_case(const ScriptCommand& command) { return run_cases(command, single(command.words[0]), 0); }

Outcome Interpreter::run_cases(const ScriptCommand& command, const ShellText& subject, std::size_t arm) {
  if (arm == command.cases.size()) return Outcome::of(true);
  const Level level(*this);
  Outcome matches = Outcome::of(false);
  for (const ScriptWord& word : command.cases[arm].patterns) {
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
  const auto body = [&] {
    Outcome outcome = run(command.cases[arm].body);
    if (command.cases[arm].falls_through && arm + 1 < command.cases.size()) outcome = run(command.cases[arm + 1].body);
    return outcome;
  };
  return run_either(matches, body, [&] { return run_cases(command, subject, arm + 1); });
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
  state_.arguments.clear();
  state_.shifted = 0, state_.all_arguments = true;
  for (std::size_t i = 1; i < words.size(); ++i) state_.arguments[static_cast<int>(i)] = words[i].text;
  state_.hidden.emplace_back();
  Outcome outcome = run(*function);
  for (const auto& [name, variable] : state_.hidden.back()) {
    if (variable)
      state_.variables[name] = variable;
    else
      state_.variables.erase(name);
  }
  state_.hidden.pop_back();
  state_.arguments = arguments;
  state_.shifted = shifted, state_.all_arguments = all;
  if (state_.flow == ScriptState::Flow::Returns) state_.flow = ScriptState::Flow::Runs;
  return outcome;
}

int Interpreter::unknown(Unknown::Kind kind, const std::string& name, int line, const std::string& why) {
  for (std::size_t i = 0; i < unknowns_.size(); ++i)
    if (unknowns_[i].kind == kind && unknowns_[i].name.name == name) return static_cast<int>(i);
  if (unknowns_.size() >= kMostUnknowns)
    throw InputError(fmt::format("{}: more than {} values are not known", name_, kMostUnknowns));
  budget_.spend(unknowns_.size());
  unknowns_.push_back({kind, {name, line > 0 ? line : line_, files_.name(file_), why, {}}});
  return static_cast<int>(unknowns_.size()) - 1;
}

int Interpreter::note(const std::string& sentence) {
  const auto found = std::find(notes_.begin(), notes_.end(), sentence);
  if (found != notes_.end()) return static_cast<int>(found - notes_.begin());
  budget_.spend(notes_.size() + sentence.size());
  notes_.push_back(sentence);
  return static_cast<int>(notes_.size()) - 1;
}

std::string Interpreter::spelled(const ShellText& text) const {
  std::string spelled;
  for (const ShellPiece& piece : text.pieces()) {
    if (piece.unknown < 0) {
      spelled += piece.text;
      continue;
    }
    const std::string& name = unknowns_[static_cast<std::size_t>(piece.unknown)].name.name;
    spelled += name[0] == '$' || name[0] == '<' ? name : "${" + name + "}";
  }
  return spelled;
}

std::vector<UnknownName> Interpreter::names_of(const std::vector<int>& unknowns) const {
  std::vector<UnknownName> names;
  for (const int unknown : unknowns) {
    const UnknownName& name = unknowns_[static_cast<std::size_t>(unknown)].name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

ShellWord Interpreter::shell_word(const Field& field, int line) const {
  ShellWord word;
  word.line = line;
  word.expands = !field.text.known();
  const auto& pieces = field.text.pieces();
  const auto open = [](const ShellPiece& piece) { return piece.unknown >= 0 || piece.text.empty(); };
  word.stands_alone = field.alone && word.expands && std::all_of(pieces.begin(), pieces.end(), open);
  word.text = spelled(field.text);
  bool placed = false;
  for (const ShellPiece& piece : field.text.pieces()) {
    if (piece.text.empty() && piece.unknown < 0) continue;
    WordPiece part;
    part.text = piece.text;
    if (piece.unknown >= 0) {
      part.unknown = unknowns_[static_cast<std::size_t>(piece.unknown)].name;
      ShellText one = ShellText::of_unknown(piece.unknown);
      part.text = spelled(one);
    } else if (piece.file >= 0) {
      part.place = files_.place(piece.file, piece.offset, piece.text.size());
      if (!placed) word.line = part.place->line, word.column = part.place->column;
      placed = true;
    }
    word.pieces.push_back(std::move(part));
  }
  return word;
}

// A number that #SBATCH lines give; 0: none.
int Interpreter::stated_number(const std::string& name) const {
  const ScriptVariable* variable = state_.find(name);
  int number = 0;
  if (variable == nullptr || !variable->text.known()) return 0;
  const std::string text = variable->text.plain();
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number > 0 && number <= (1 << 16) ? number : 0;
}

// A value for a name that stands nowhere in what was read is meant for another one. Names may be made where a script evaluates
// text or `${!NAME}`, and Slurm's are read without standing in it.
void Interpreter::check_defines() const {
  std::set<std::string> names;
  for (int file = 0; file < files_.count(); ++file) {
    const std::string& text = files_.text(file);
    if (text.find("${!") != std::string::npos || text.find("eval") != std::string::npos) return;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at;
      while (end < text.size() && is_name_character(text[end])) ++end;
      if (end > at) names.insert(text.substr(at, end - at));
      at = end + 1;
    }
  }
  for (const auto& [name, value] : options_.defines)
    if (!names.contains(name) && !name.starts_with("SLURM_"))
      throw InputError(fmt::format("{}: the script has no variable '{}'{}", name_, without_controls(name),
                                   suggestion(name, {names.begin(), names.end()})),
                       "--define states a variable that the script uses", code::kUnknownName);
}

LaunchScript Interpreter::result() {
  check_defines();
  LaunchScript script;
  script.remarks = remarks_;
  script.nodes = stated_number("SLURM_NNODES");
  script.gpus_per_node = std::max(stated_number("SLURM_GPUS_ON_NODE"), stated_number("SLURM_GPUS_PER_NODE"));
  for (const StartedProgram& program : started_) {
    Launch launch;
    launch.file = files_.name(program.file);
    launch.line = program.line;
    for (const Field& field : program.words) launch.words.push_back(shell_word(field, program.line));
    launch.depends = names_of(program.depends);
    for (const int note : program.notes) launch.assumed.push_back(notes_[static_cast<std::size_t>(note)]);
    script.launches.push_back(std::move(launch));
  }
  for (const auto& [name, file] : written_) script.written.push_back({spelled(file.name), spelled(file.text), file.text.known()});
  for (const std::string& name : assigned_options_) {
    const ScriptVariable* variable = state_.find(name);
    if (variable == nullptr) continue;
    Fields fields;
    put_list(fields, variable->all(), false, false);
    for (const Field& field : fields.all) script.loose_words.push_back(shell_word(field, 0));
  }
  return script;
}

LaunchScript read_launch_script(const std::string& text, const std::string& name, const LaunchOptions& options) {
  if (text.size() > (std::size_t{1} << 20)) throw InputError(fmt::format("{}: a script of more than 1 MiB is none", name));
  Interpreter interpreter(options, name);
  interpreter.run_file(text, name);
  return interpreter.result();
}

}  // namespace panpipe::jobs
