// What was found, in the words of the launch script's reader.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "base/text/did_you_mean.hpp"
#include "jobs/shell/interpreter.hpp"

namespace panpipe::jobs {

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
    launch.unlikely = program.unlikely;
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
    put_list(fields, variable->all(), false, std::nullopt);
    for (const Field& field : fields.all) script.loose_words.push_back(shell_word(field, 0));
  }
  return script;
}

}  // namespace panpipe::jobs
