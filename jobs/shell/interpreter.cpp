#include "jobs/shell/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/text/characters.hpp"

namespace panpipe::jobs {
namespace {

constexpr int kMostLevels = 250;
constexpr std::size_t kMostUnknowns = 2000;

}  // namespace

Interpreter::Level::Level(Interpreter& interpreter) : interpreter_(interpreter) {
  if (interpreter_.level_ >= kMostLevels)
    throw InputError(fmt::format("{}:{}: commands, functions or files stand more than {} deep in each other", interpreter_.name_,
                                 interpreter_.line_, kMostLevels),
                     kArgumentsAlone);
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
    state_.variables.set(defined, variable);
  }
  if (options.folder.empty()) return;
  std::error_code fault;
  folder_ = std::filesystem::canonical(options.folder, fault).string();
  if (fault) folder_.clear();
  state_.folder = folder_;
  if (!folder_.empty()) script_path_ = (std::filesystem::path(folder_) / std::filesystem::path(name).filename()).string();
}

void Interpreter::run_file(const std::string& text, const std::string& name) {
  const int file = files_.add(text, name), outer = file_;
  file_ = file;
  if (file == 0) state_machine(files_.text(0));
  ShellPiece whole;
  whole.text = files_.text(file), whole.file = file;
  ShellText source;
  source.append(std::move(whole));
  run_lines(source, 1, [&](const ScriptFault& fault) {
    return fmt::format("{}:{}: {}; a shell stops here", name, fault.line, without_controls(fault.what()));
  });
  file_ = outer;
}

// Text of eval or `bash -c`.
Outcome Interpreter::run_text(const ShellText& text, int line) {
  return run_lines(text, line, [&](const ScriptFault& fault) {
    return fmt::format("{}:{}: in text that is run as commands: {}", name_, line, without_controls(fault.what()));
  });
}

// Line by line, up to one that is none; `remark` is about that.
Outcome Interpreter::run_lines(const ShellText& text, int line, const std::function<std::string(const ScriptFault&)>& remark) {
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
    remarks_.push_back(remark(fault));
  }
  return outcome;
}

void Interpreter::copy_cost() { budget_.spend(state_.arguments.size() + 100); }

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

Outcome Interpreter::run_apart(const std::function<Outcome()>& commands) {
  const Level level(*this);
  copy_cost();
  ScriptState before = state_;
  Outcome outcome = commands();
  state_ = std::move(before);
  return outcome;
}

int Interpreter::unknown(Unknown::Kind kind, const std::string& name, int line, const std::string& why) {
  for (std::size_t i = 0; i < unknowns_.size(); ++i)
    if (unknowns_[i].kind == kind && unknowns_[i].name.name == name) return static_cast<int>(i);
  budget_.spend(unknowns_.size());
  return add_unknown({kind, {name, line > 0 ? line : line_, files_.name(file_), why, {}}});
}

int Interpreter::add_unknown(Unknown unknown) {
  if (unknowns_.size() >= kMostUnknowns)
    throw InputError(fmt::format("{}:{}: more than {} values are not known", name_, line_, kMostUnknowns), kArgumentsAlone);
  unknowns_.push_back(std::move(unknown));
  return static_cast<int>(unknowns_.size()) - 1;
}

int Interpreter::note(const std::string& sentence) {
  const auto found = std::find(notes_.begin(), notes_.end(), sentence);
  if (found != notes_.end()) return static_cast<int>(found - notes_.begin());
  budget_.spend(notes_.size() + sentence.size());
  notes_.push_back(sentence);
  return static_cast<int>(notes_.size()) - 1;
}

LaunchScript read_launch_script(const std::string& text, const std::string& name, const LaunchOptions& options) {
  if (text.size() > (std::size_t{1} << 20)) throw InputError(fmt::format("{}: a script of more than 1 MiB is none", name));
  Interpreter interpreter(options, name);
  interpreter.run_file(text, name);
  return interpreter.result();
}

}  // namespace panpipe::jobs
