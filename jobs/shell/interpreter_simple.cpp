// Simple commands: assignments, functions, and the programs that a script starts.
#include <fmt/format.h>

#include <algorithm>

#include "jobs/shell/interpreter.hpp"
#include "jobs/shell/script_folder.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostPrograms = 2000;

std::string base_of(const std::string& program) { return program.substr(program.find_last_of('/') + 1); }

bool is_shell(const std::string& program) {
  const std::string base = base_of(program);
  return base == "bash" || base == "sh" || base == "zsh" || base == "dash";
}

// Programs that are started for what they answer.
bool is_question(const std::string& program) {
  for (const char* name : {"grep", "egrep", "fgrep", "which", "type", "hash", "diff", "cmp", "pgrep", "command", "id", "getent"})
    if (program == name) return true;
  return false;
}

}  // namespace

Outcome Interpreter::run_simple(const ScriptCommand& command) {
  used_notes_.clear();
  std::vector<Field> words = expand(command.words);
  const bool declares = !words.empty() && is_declaration(words[0].text.plain());
  if (declares || command.assignments.empty()) return run_words(command, std::move(words));
  if (words.empty()) {
    for (const ScriptAssignment& assignment : command.assignments) assign(assignment);
    return Outcome::of_program();
  }
  // NAME=value COMMAND: for that command alone.
  std::map<std::string, VariablePointer> before;
  for (const ScriptAssignment& assignment : command.assignments) {
    before.emplace(assignment.name, state_.variables.find(assignment.name));
    assign(assignment);
    export_name(assignment.name);
  }
  Outcome outcome = run_words(command, std::move(words));
  for (const auto& [name, variable] : before) state_.variables.set(name, variable);
  return outcome;
}

Outcome Interpreter::run_words(const ScriptCommand& command, std::vector<Field> words) {
  Outcome outcome;
  if (words.empty()) return outcome;
  const std::string program = words[0].text.known() ? words[0].text.plain() : "";
  if (const CommandPointer body = state_.functions.find(program)) return run_function(body, words);
  if (run_builtin(command, words, outcome)) return outcome;
  return start(command, std::move(words));
}

// The word that is a script to follow: the program, or a file next to the script that a launcher starts, `srun OPTIONS ./run.sh`.
std::optional<std::size_t> Interpreter::script_among(const std::vector<Field>& words) const {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].text.known()) continue;
    const std::string word = words[i].text.plain();
    if (word.ends_with(".py") || base_of(word).starts_with("python")) break;
    if (!word.ends_with(".sh")) continue;
    if (i == 0 || written_.contains(word) || file_beside(folder_, state_.folder, word)) return i;
  }
  return std::nullopt;
}

// `sbatch "$0"`: what it starts is read as the script itself.
bool Interpreter::starts_itself(const std::vector<Field>& words) const {
  const std::string program = words[0].text.known() ? base_of(words[0].text.plain()) : "";
  if (program != "sbatch" && program != "qsub" && program != "bsub") return false;
  return std::any_of(words.begin() + 1, words.end(), [&](const Field& word) {
    return word.text.known() && word.text.plain() == (script_path_.empty() ? name_ : script_path_);
  });
}

// Programs that start another one with the rest of their words.
Outcome Interpreter::start(const ScriptCommand& command, std::vector<Field> words) {
  const std::vector<int> notes = used_notes_;
  if (starts_itself(words)) return Outcome::of(true);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (!words[i].text.known() || !is_shell(words[i].text.plain())) continue;
    return run_script(command, words, i);
  }
  if (const auto at = script_among(words)) {
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(*at), Field{ShellText("bash"), false, false});
    return run_script(command, words, *at);
  }
  const std::string program = words[0].text.known() ? words[0].text.plain() : "";
  bool options = false;
  for (const Field& word : words) {
    const std::string text = word.text.flat();
    // A whole command in one word: of ssh, or of a launcher that takes a string.
    if (text.find("--num-layers") != std::string::npos && text.find_first_of(" \n") != std::string::npos && word.quoted) {
      const ShellText inner = word.text;
      return run_apart([&] { return run_text(inner, command.line); });
    }
    options |= text.rfind("--", 0) == 0 || (word.alone && !word.text.known());
  }
  if (options && started_.size() < kMostPrograms)
    started_.push_back({words, file_, command.line, depends_, notes, unlikely_ > 0});
  if (output_ != nullptr) {
    const std::string name = command.words.empty() ? program : fmt::format("$({} ...)", spelled(words[0].text));
    print(ShellText::of_unknown(unknown(Unknown::Kind::Output, name, command.line)));
  }
  Outcome outcome = Outcome::unknown({unknown(Unknown::Kind::Output, program.empty() ? "a program" : program, command.line)});
  outcome.external = !is_question(program);
  return outcome;
}

// `bash -c TEXT`, `bash FILE`: in a shell of its own, which sees only what is exported.
Outcome Interpreter::run_script(const ScriptCommand& command, const std::vector<Field>& words, std::size_t at) {
  bool text = false;
  std::size_t next = at + 1;
  for (; next < words.size(); ++next) {
    const std::string option = words[next].text.flat();
    if (option.size() < 2 || option[0] != '-') break;
    if (option[1] != '-' && option.find('c') != std::string::npos) text = true;
    if (option == "-o" || option == "--rcfile" || option == "--init-file") ++next;
  }
  if (next >= words.size()) return Outcome::unknown({});
  const Field& subject = words[next];
  const auto arguments = words.begin() + static_cast<std::ptrdiff_t>(std::min(next + (text ? 2 : 1), words.size()));
  return run_apart([&] {
    state_.variables.keep([](const ScriptVariable& variable) { return variable.exported; });
    state_.functions = {};
    take_arguments({arguments, words.end()});
    return text ? run_text(subject.text, command.line) : source(command, {Field{}, subject});
  });
}

// The words are all arguments, from $1.
void Interpreter::take_arguments(const std::vector<Field>& words) {
  state_.arguments.clear();
  state_.shifted = 0, state_.all_arguments = true;
  for (const Field& word : words) state_.arguments[state_.argument_count() + 1] = word.text;
}

Outcome Interpreter::source(const ScriptCommand& command, const std::vector<Field>& words) {
  if (words.size() < 2) return Outcome::of(true);
  const ShellText& name = words[1].text;
  const auto written = written_.find(name.flat());
  if (written != written_.end()) {
    const ShellText text = written->second.text;
    return run_text(text, command.line);
  }
  const auto file = name.known() ? file_beside(folder_, state_.folder, name.plain()) : std::nullopt;
  if (!file) {
    const std::string spelled_name = spelled(name);
    remarks_.push_back(fmt::format("{}:{}: {} is not read: it is no file beside the script or below it", name_, command.line,
                                   spelled_name.size() > 80 ? spelled_name.substr(0, 80) + "..." : spelled_name));
    return Outcome::of_program();
  }
  budget_.spend(1000);
  run_file(file->text, file->path);
  if (state_.flow == ScriptState::Flow::Returns) state_.flow = ScriptState::Flow::Runs;
  return Outcome::of_program();
}

// An unknown output is named after the variable that takes it, if it takes little else: that can be defined.
ShellText Interpreter::named_after(const std::string& name, const ShellText& text) {
  if (text.known() || text.flat().find_first_of(" \n") != std::string::npos) return text;
  ShellText named;
  for (ShellPiece piece : text.pieces()) {
    if (piece.unknown >= 0 && unknowns_[static_cast<std::size_t>(piece.unknown)].kind == Unknown::Kind::Output) {
      const Unknown& output = unknowns_[static_cast<std::size_t>(piece.unknown)];
      if (output.name.name[0] == '$' || output.name.name[0] == '<')
        piece.unknown = unknown(Unknown::Kind::Output, name, output.name.line, output.name.name);
    }
    named.append(std::move(piece));
  }
  return named;
}

// A copy to change; of a name that is not set, an empty one.
std::shared_ptr<ScriptVariable> Interpreter::changed_variable(const std::string& name) const {
  const ScriptVariable* found = state_.find(name);
  return found == nullptr ? std::make_shared<ScriptVariable>() : std::make_shared<ScriptVariable>(*found);
}

void Interpreter::set(const std::string& name, const ShellText& text) {
  if (options_.defines.contains(name)) return;
  budget_.spend(1);
  const auto variable = changed_variable(name);
  variable->text = named_after(name, text);
  if (variable->is_array) variable->items[0] = variable->text;
  if (text.flat().find("--") != std::string::npos &&
      std::find(assigned_options_.begin(), assigned_options_.end(), name) == assigned_options_.end())
    assigned_options_.push_back(name);
  state_.variables.set(name, variable);
}

void Interpreter::set_item(const std::string& name, const std::string& index, const ShellText& text) {
  if (options_.defines.contains(name)) return;
  const auto variable = changed_variable(name);
  budget_.spend(variable->items.size() + variable->named.size() + 1);
  if (variable->is_map) {
    variable->named[index] = named_after(name, text);
  } else {
    if (!variable->is_array && !variable->text.empty()) variable->items[0] = variable->text;
    variable->is_array = true;
    variable->items[std::atoll(index.c_str())] = named_after(name, text);
  }
  state_.variables.set(name, variable);
}

void Interpreter::assign(const ScriptAssignment& assignment) {
  line_ = assignment.line;
  const ScriptVariable* before = state_.find(assignment.name);
  if (assignment.array) {
    const auto variable = changed_variable(assignment.name);
    set_array(assignment, *variable);
    if (options_.defines.contains(assignment.name)) return;
    state_.variables.set(assignment.name, variable);
    return;
  }
  ShellText text;
  if (assignment.index) {
    const std::string key = before && before->is_map
                                ? single(assignment.index).flat()
                                : text_of(arithmetic(single(assignment.index), assignment.line), assignment.line).flat();
    if (assignment.append) {
      before = state_.find(assignment.name);
      const auto item = before ? before->items.find(std::atoll(key.c_str())) : std::map<long long, ShellText>::const_iterator();
      if (before && !before->is_map && item != before->items.end()) text = item->second;
      if (before && before->is_map && before->named.contains(key)) text = before->named.at(key);
    }
    text.append(single(assignment.value));
    return set_item(assignment.name, key, text);
  }
  // Before its first assignment a variable is the environment's: TP=${TP:-4}, TP=$TP.
  const bool first = !before && context_.assigned.erase(assignment.name) > 0;
  const ShellText value = single(assignment.value);
  if (first) context_.assigned.insert(assignment.name);
  before = state_.find(assignment.name);
  if (assignment.append && before) text = before->is_array && before->items.contains(0) ? before->items.at(0) : before->text;
  if (assignment.append && !before && !context_.assigned.contains(assignment.name))
    text = unset_value(assignment.name, assignment.line);
  text.append(value);
  budget_.spend(text.size());
  budget_.check_size(text.size(), assignment.line);
  set(assignment.name, text);
}

void Interpreter::set_array(const ScriptAssignment& assignment, ScriptVariable& variable) {
  const bool is_map = variable.is_map;
  if (!assignment.append) variable.items.clear(), variable.named.clear();
  if (!variable.is_array && assignment.append && !variable.text.empty()) variable.items[0] = variable.text;
  variable.is_array = !is_map;
  long long next = variable.items.empty() ? 0 : variable.items.rbegin()->first + 1;
  bool options = false;
  budget_.spend(variable.items.size() + variable.named.size());
  for (const ScriptElement& element : assignment.elements) {
    if (element.index) {
      if (is_map) {
        variable.named[single(element.index).flat()] = single(element.value);
        continue;
      }
      next = arithmetic(single(element.index), assignment.line).value;
      variable.items[next++] = single(element.value);
      continue;
    }
    Fields fields;
    expand_word(element.value, fields);
    for (Field& field : fields.all) {
      options |= field.text.flat().rfind("--", 0) == 0;
      variable.items[next++] = named_after(assignment.name, field.text);
    }
  }
  if (options && std::find(assigned_options_.begin(), assigned_options_.end(), assignment.name) == assigned_options_.end())
    assigned_options_.push_back(assignment.name);
}

void Interpreter::make_local(const std::string& name) {
  if (state_.hidden.empty() || state_.hidden.back().contains(name)) return;
  state_.hidden.back()[name] = state_.variables.find(name);
  if (!options_.defines.contains(name)) state_.variables.erase(name);
}

void Interpreter::export_name(const std::string& name) {
  const ScriptVariable* found = state_.find(name);
  if (found == nullptr || found->exported) return;
  const auto variable = changed_variable(name);
  variable->exported = true;
  state_.variables.set(name, variable);
}

bool Interpreter::redirects_output(const ScriptCommand& command) const {
  return std::any_of(command.redirects.begin(), command.redirects.end(), [](const ScriptRedirect& redirect) {
    const bool writes = redirect.operation == ">" || redirect.operation == ">>" || redirect.operation == ">|";
    return writes && (redirect.descriptor == -1 || redirect.descriptor == 1);
  });
}

// A file that the script writes: its text is kept, under the name as it is written.
void Interpreter::redirect_output(const ScriptCommand& command, const ShellText& output) {
  for (const ScriptRedirect& redirect : command.redirects) {
    if (redirect.operation[0] != '>' || redirect.operation == ">&" || redirect.descriptor == 2) continue;
    const ShellText name = single(redirect.target);
    const std::string flat = name.flat();
    if (flat.empty() || flat == "/dev/null" || written_.size() > 1000) continue;
    Written& file = written_[flat];
    file.name = name;
    if (redirect.operation != ">>") file.text = {};
    file.text.append(output);
    budget_.spend(file.text.size());
    budget_.check_size(file.text.size(), command.line);
  }
}

void Interpreter::print(const ShellText& text) {
  if (output_ == nullptr) return;
  budget_.spend(text.size() + 1);
  output_->append(text);
  budget_.check_size(output_->size(), line_);
}

}  // namespace panpipe::jobs
