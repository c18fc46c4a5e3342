// Commands that a shell runs itself, and programs whose answer follows from their words.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "jobs/shell/interpreter.hpp"

namespace panpipe::jobs {
namespace {

bool is_name_of(const std::string& program, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return program == name; });
}

int number_behind(const std::string& text, int otherwise) {
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// dirname's answer.
std::string folder_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  path.resize(slash);
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.empty() ? "/" : path;
}

std::string in_folder(const std::string& folder, const std::string& name) {
  std::filesystem::path path = (std::filesystem::path(folder) / name).lexically_normal();
  if (!path.has_filename() && path.has_parent_path()) path = path.parent_path();
  return path.string();
}

// basename's answer.
std::string last_part(std::string path, const std::string& suffix) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string base = path == "/" ? path : path.substr(path.find_last_of('/') + 1);
  if (!suffix.empty() && base.size() > suffix.size() && base.ends_with(suffix)) base.resize(base.size() - suffix.size());
  return base;
}

std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      plain += text[i];
      continue;
    }
    const char next = text[++i];
    if (next == 'n')
      plain += '\n';
    else if (next == 't')
      plain += '\t';
    else if (next == '\\')
      plain += '\\';
    else
      plain += {'\\', next};
  }
  return plain;
}

}  // namespace

// True if the command is one of these; some only remove themselves from the words and leave the rest to `start`.
bool Interpreter::run_builtin(const ScriptCommand& command, std::vector<Field>& words, Outcome& outcome) {
  if (!words[0].text.known()) return false;
  const std::string program = words[0].text.plain();
  if (is_name_of(program, {"exec", "builtin", "nohup", "sudo", "time", "command"})) {
    if (program == "command" && words.size() > 1 && words[1].text.flat().rfind("-", 0) == 0) return false;
    words.erase(words.begin());
    while (!words.empty() && words[0].text.flat().rfind("-", 0) == 0) words.erase(words.begin());
    const bool ends = program == "exec" && !words.empty();
    outcome = run_words(command, std::move(words));
    if (ends) state_.flow = ScriptState::Flow::Exits;
    return true;
  }
  static const std::map<std::string_view, Outcome (Interpreter::*)(const ScriptCommand&, const std::vector<Field>&)> kBuiltins = {
      {"echo", &Interpreter::echo},
      {"printf", &Interpreter::print_formatted},
      {"cd", &Interpreter::change_folder},
      {"pushd", &Interpreter::change_folder},
      {"source", &Interpreter::source},
      {".", &Interpreter::source},
      {"[", &Interpreter::test},
      {"test", &Interpreter::test},
      {"eval", &Interpreter::evaluate},
      {"set", &Interpreter::set_arguments},
      {"shift", &Interpreter::shift},
      {"read", &Interpreter::read_names},
      {"mapfile", &Interpreter::read_names},
      {"readarray", &Interpreter::read_names},
      {"getopts", &Interpreter::read_names},
      {"exit", &Interpreter::leave},
      {"return", &Interpreter::leave},
      {"break", &Interpreter::leave},
      {"continue", &Interpreter::leave},
      {"unset", &Interpreter::unset},
      {"let", &Interpreter::evaluate_let}};
  const auto builtin = kBuiltins.find(program);
  if (builtin != kBuiltins.end() || is_declaration(program)) {
    outcome = builtin != kBuiltins.end() ? (this->*builtin->second)(command, words) : declare(command, words);
    return true;
  }
  outcome = Outcome::of(program != "false");
  if (is_name_of(program, {"dirname", "basename", "realpath", "readlink", "pwd", "seq", "expr", "cat", "sed"}))
    return prints_known(command, words);
  return is_name_of(program, {"true", "false", ":", "trap", "wait", "ulimit", "alias", "unalias", "shopt", "umask", "popd",
                              "sleep", "clear", "mkdir", "rm", "touch", "chmod", "jobs", "disown"});
}

Outcome Interpreter::evaluate(const ScriptCommand& command, const std::vector<Field>& words) {
  ShellText text;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (i > 1) text.append(" ");
    text.append(words[i].text);
  }
  budget_.check_size(text.size(), command.line);
  return run_text(text, command.line);
}

Outcome Interpreter::evaluate_let(const ScriptCommand& command, const std::vector<Field>& words) {
  ArithmeticResult result;
  for (std::size_t i = 1; i < words.size(); ++i) result = arithmetic(words[i].text, command.line);
  return result.unknowns.empty() ? Outcome::of(result.value != 0) : Outcome::unknown(result.unknowns);
}

Outcome Interpreter::unset(const ScriptCommand&, const std::vector<Field>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string name = words[i].text.flat();
    if (options_.defines.contains(name)) continue;
    state_.variables.erase(name);
    state_.functions.erase(name);
    context_.assigned.insert(name);
  }
  return Outcome::of(true);
}

Outcome Interpreter::declare(const ScriptCommand& command, const std::vector<Field>& words) {
  const std::string program = words[0].text.plain();
  std::string options;
  for (std::size_t i = 1; i < words.size(); ++i)
    if (words[i].text.flat().rfind("-", 0) == 0) options += words[i].text.flat();
  const bool global = options.find('g') != std::string::npos;
  const bool local = program == "local" || ((program == "declare" || program == "typeset") && !state_.hidden.empty() && !global);
  const auto mark = [&](const std::string& name) {
    if (options.find('A') == std::string::npos && options.find('a') == std::string::npos) return;
    const auto variable = changed_variable(name);
    variable->is_map = options.find('A') != std::string::npos;
    variable->is_array = !variable->is_map;
    if (!options_.defines.contains(name)) state_.variables.set(name, variable);
  };
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string name = words[i].text.flat();
    if (name.empty() || name[0] == '-') continue;
    if (local) make_local(name);
    mark(name);
    if (program == "export") export_name(name);
  }
  for (const ScriptAssignment& assignment : command.assignments) {
    if (local) make_local(assignment.name);
    mark(assignment.name);
    assign(assignment);
    if (program == "export" || options.find('x') != std::string::npos) export_name(assignment.name);
  }
  return Outcome::of_program();
}

Outcome Interpreter::echo(const ScriptCommand&, const std::vector<Field>& words) {
  std::size_t i = 1;
  bool line_end = true, escapes = false;
  for (; i < words.size(); ++i) {
    const std::string option = words[i].text.flat();
    if (option.size() < 2 || option[0] != '-' || option.find_first_not_of("neE", 1) != std::string::npos) break;
    line_end &= option.find('n') == std::string::npos;
    escapes |= option.find('e') != std::string::npos;
  }
  ShellText text;
  for (std::size_t first = i; i < words.size(); ++i) {
    if (i > first) text.append(" ");
    text.append(escapes && words[i].text.known() ? ShellText(unescaped(words[i].text.plain())) : words[i].text);
  }
  if (line_end) text.append("\n");
  print(text);
  return Outcome::of(true);
}

// printf with %s, %d and %%; the format is used again while there are words.
Outcome Interpreter::print_formatted(const ScriptCommand&, const std::vector<Field>& words) {
  std::size_t at = 1;
  std::string variable;
  if (words.size() > 2 && words[1].text.flat() == "-v") variable = words[2].text.flat(), at = 3;
  if (at >= words.size()) return Outcome::of(true);
  const std::string format = unescaped(words[at].text.flat());
  ShellText text;
  std::size_t next = at + 1;
  do {
    const std::size_t used = next;
    for (std::size_t i = 0; i < format.size(); ++i) {
      if (format[i] != '%' || i + 1 >= format.size()) {
        text.append(std::string(1, format[i]));
        continue;
      }
      ++i;
      if (format[i] == '%') {
        text.append("%");
      } else if (format[i] == 's' || format[i] == 'd' || format[i] == 'b') {
        if (next < words.size()) text.append(words[next++].text);
      } else {
        text = ShellText::of_unknown(unknown(Unknown::Kind::Output, "$(printf ...)", line_));
        next = words.size();
        break;
      }
    }
    budget_.spend(text.size() + 1);
    if (used == next) break;
  } while (next < words.size());
  if (variable.empty())
    print(text);
  else
    set(variable, text);
  return Outcome::of(true);
}

Outcome Interpreter::change_folder(const ScriptCommand&, const std::vector<Field>& words) {
  std::size_t at = 1;
  while (at < words.size() && words[at].text.flat().rfind("-", 0) == 0 && words[at].text.flat() != "-") ++at;
  const bool known = at < words.size() && words[at].text.known() && words[at].text.flat() != "-";
  if (!known || (state_.folder.empty() && words[at].text.plain()[0] != '/')) {
    state_.folder.clear();
  } else {
    state_.folder = in_folder(state_.folder, words[at].text.plain());
  }
  return Outcome::of_program();
}

// `read` and its like: what they read is not known. Without arguments there are no options for getopts.
Outcome Interpreter::read_names(const ScriptCommand& command, const std::vector<Field>& words) {
  const std::string program = words[0].text.plain();
  if (program == "getopts" && !state_.all_arguments && state_.arguments.empty()) return Outcome::of(false);
  const int input = unknown(Unknown::Kind::Output, fmt::format("$({})", program), command.line);
  for (std::size_t i = program == "getopts" ? 2 : 1; i < words.size(); ++i) {
    const std::string name = words[i].text.flat();
    if (name.empty() || name[0] == '-') continue;
    if (program == "mapfile" || program == "readarray")
      set_item(name, "0", ShellText::of_unknown(input));
    else
      set(name, ShellText::of_unknown(input));
  }
  Outcome outcome = Outcome::unknown({input});
  outcome.external = program != "getopts";
  return outcome;
}

// `set -- WORD...`: options of the shell change no value.
Outcome Interpreter::set_arguments(const ScriptCommand&, const std::vector<Field>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].text.flat() != "--") continue;
    take_arguments({words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()});
    break;
  }
  return Outcome::of(true);
}

Outcome Interpreter::shift(const ScriptCommand&, const std::vector<Field>& words) {
  const int count = words.size() > 1 ? number_behind(words[1].text.flat(), 1) : 1;
  if (count < 0 || (state_.all_arguments && count > state_.argument_count())) return Outcome::of(false);
  std::map<int, ShellText> left;
  budget_.spend(state_.arguments.size());
  for (auto& [number, text] : state_.arguments)
    if (number > count) left[number - count] = std::move(text);
  state_.arguments = std::move(left);
  state_.shifted += std::min(count, 1000);
  return Outcome::of(true);
}

Outcome Interpreter::leave(const ScriptCommand&, const std::vector<Field>& words) {
  using Flow = ScriptState::Flow;
  const int number = words.size() > 1 ? number_behind(words[1].text.flat(), 1) : -1;
  const std::string program = words[0].text.plain();
  state_.flow = program == "exit"     ? Flow::Exits
                : program == "return" ? Flow::Returns
                : program == "break"  ? Flow::Breaks
                                      : Flow::Continues;
  state_.levels = std::max(1, number);
  if (state_.flow == Flow::Breaks || state_.flow == Flow::Continues || number < 0) return Outcome::of(true);
  return Outcome::of(number == 0);
}

// Programs whose output follows from their words; false: it does not.
bool Interpreter::prints_known(const ScriptCommand& command, const std::vector<Field>& words) {
  const std::string program = words[0].text.plain();
  if (program == "cat") return concatenate(command, words);
  if (program == "sed") return edit_stream(command, words);
  std::vector<std::string> rest;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (!words[i].text.known()) return false;
    const std::string text = words[i].text.plain();
    if (program == "expr" || text.size() < 2 || text[0] != '-' || program == "seq") rest.push_back(text);
  }
  const auto answer = answer_of(program, rest);
  if (!answer) return false;
  print(ShellText(*answer + "\n"));
  return true;
}

std::optional<std::string> Interpreter::answer_of(const std::string& program, const std::vector<std::string>& words) {
  if (program == "pwd") return state_.folder.empty() ? std::nullopt : std::optional(state_.folder);
  if (program == "expr") {
    std::string expression;
    for (const std::string& word : words) expression += word + " ";
    const ArithmeticResult result = arithmetic(ShellText(expression), line_);
    return result.fault || !result.unknowns.empty() ? std::nullopt : std::optional(std::to_string(result.value));
  }
  if (words.empty()) return std::nullopt;
  if (program == "dirname") return folder_of(words[0]);
  if (program == "basename") return last_part(words[0], words.size() > 1 ? words[1] : "");
  if (program == "seq") {
    const int first = words.size() > 1 ? number_behind(words[0], 0) : 1, step = words.size() > 2 ? number_behind(words[1], 1) : 1;
    const int last = number_behind(words.back(), 0);
    if (step <= 0 || last - first > 1000) return std::nullopt;
    std::string numbers;
    for (int i = first; i <= last; i += step) numbers += fmt::format("{}{}", numbers.empty() ? "" : "\n", i);
    return numbers;
  }
  return state_.folder.empty() ? std::nullopt : std::optional(in_folder(state_.folder, words.back()));
}

}  // namespace panpipe::jobs
