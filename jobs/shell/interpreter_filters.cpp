// cat and sed, where their input is known: so scripts write the configurations that they pass on.
#include <algorithm>

#include "jobs/shell/interpreter.hpp"
#include "jobs/shell/script_folder.hpp"

namespace panpipe::jobs {
namespace {

struct Replacement {
  std::string from, to;
  bool every = false;
};

// s/from/to/ without a pattern in `from`; none: anything else.
std::optional<Replacement> plain_replacement(const std::string& text) {
  if (text.size() < 4 || text[0] != 's') return std::nullopt;
  const char mark = text[1];
  std::string parts[3];
  std::size_t part = 0;
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == mark) {
      parts[part] += text[++i];
    } else if (text[i] == mark) {
      if (++part > 2) return std::nullopt;
    } else {
      parts[part] += text[i];
    }
  }
  const bool plain =
      parts[0].find_first_of(".*[]^$\\") == std::string::npos && parts[1].find_first_of("&\\") == std::string::npos;
  if (part != 2 || parts[0].empty() || !plain || (!parts[2].empty() && parts[2] != "g")) return std::nullopt;
  return Replacement{parts[0], parts[1], parts[2] == "g"};
}

// In each line the first place, or every.
std::string replaced_in_lines(const std::string& text, const Replacement& replacement) {
  std::string result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    std::string line = text.substr(begin, end - begin);
    for (std::size_t at = line.find(replacement.from); at != std::string::npos; at = line.find(replacement.from, at)) {
      line.replace(at, replacement.from.size(), replacement.to);
      at += replacement.to.size();
      if (!replacement.every) break;
    }
    result += line;
    begin = end;
  }
  return result;
}

}  // namespace

// The text of a file that the script writes or that stands next to it.
std::optional<ShellText> Interpreter::text_of_file(const ShellText& name) {
  const auto written = written_.find(name.flat());
  if (written != written_.end()) return written->second.text;
  if (!name.known()) return std::nullopt;
  auto file = file_beside(folder_, state_.folder, name.plain());
  if (!file) return std::nullopt;
  budget_.spend(file->text.size() + 1000);
  return ShellText(file->text);
}

// What a command reads: its here-document or the output in front of it in a pipeline.
std::optional<ShellText> Interpreter::input_of(const ScriptCommand& command) {
  for (const ScriptRedirect& redirect : command.redirects) {
    if (redirect.operation == "<") return text_of_file(single(redirect.target));
    if (redirect.operation != "<<" && redirect.operation != "<<<") continue;
    ShellText text = single(redirect.target);
    if (redirect.operation == "<<<") text.append("\n");
    return text;
  }
  return input_ ? std::optional(*input_) : std::nullopt;
}

bool Interpreter::concatenate(const ScriptCommand& command, const std::vector<Field>& words) {
  ShellText text;
  std::size_t files = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].text.flat().rfind("-", 0) == 0) continue;
    const auto file = text_of_file(words[i].text);
    if (!file) return false;
    text.append(*file);
    ++files;
  }
  if (files == 0) {
    const auto input = input_of(command);
    if (!input) return false;
    text = *input;
  }
  print(text);
  return true;
}

bool Interpreter::edit_stream(const ScriptCommand& command, const std::vector<Field>& words) {
  std::vector<Replacement> replacements;
  std::optional<ShellText> input;
  bool file = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const ShellText& word = words[i].text;
    if (word.flat() == "-e") continue;
    const auto replacement = plain_replacement(word.flat());
    if (replacement && !file) {
      replacements.push_back(*replacement);
    } else if (file || word.flat().rfind("-", 0) == 0 || replacements.empty()) {
      return false;
    } else {
      input = text_of_file(word);
      file = true;
    }
  }
  if (!file) input = input_of(command);
  if (!input || replacements.empty()) return false;
  std::string text = input->flat();
  for (const Replacement& replacement : replacements) {
    budget_.spend(text.size() + 1);
    text = replaced_in_lines(text, replacement);
    budget_.check_size(text.size(), line_);
  }
  print(unflattened(text));
  return true;
}

// The text with its unknowns, from the form of ShellText::flat.
ShellText Interpreter::unflattened(const std::string& flat) {
  ShellText text;
  for (std::size_t at = 0; at < flat.size();) {
    const std::size_t begin = flat.find(kUnknownBegin, at), end = flat.find(kUnknownEnd, at);
    text.append(flat.substr(at, std::min(begin, flat.size()) - at));
    if (begin == std::string::npos || end == std::string::npos) break;
    text.append(ShellText::of_unknown(std::atoi(flat.substr(begin + 1, end - begin - 1).c_str())));
    at = end + 1;
  }
  return text;
}

}  // namespace panpipe::jobs
