// Parameters of a script: what they are, and what ${X%...} and its like make of them.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "jobs/shell/interpreter.hpp"
#include "jobs/shell/shell_pattern.hpp"

namespace panpipe::jobs {
namespace {

bool all_digits(const std::string& name) {
  return !name.empty() && name.size() < 6 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

ShellText unknowns_of(const ShellText& text) {
  ShellText only;
  for (const int unknown : text.unknowns()) only.append(ShellText::of_unknown(unknown));
  return only;
}

ShellText in_case(const ShellText& value, const std::string& operation) {
  ShellText text;
  bool first = true;
  for (const ShellPiece& piece : value.pieces()) {
    std::string changed = piece.text;
    for (char& c : changed) {
      if (first || operation.size() == 2) c = static_cast<char>(operation[0] == '^' ? std::toupper(c) : std::tolower(c));
      first = false;
    }
    text.append(std::move(changed));
  }
  return text;
}

}  // namespace

// A value that no text of the script gives: the environment's. What the script assigns elsewhere is empty here.
ShellText Interpreter::unset_value(const std::string& name, int line) {
  if (name == "@" || name == "*" || context_.assigned.contains(name)) return {};
  if (all_digits(name)) {
    if (state_.all_arguments) return {};
    return ShellText::of_unknown(unknown(Unknown::Kind::Argument, std::to_string(std::stoi(name) + state_.shifted), line));
  }
  return ShellText::of_unknown(unknown(Unknown::Kind::Variable, name, line));
}

std::optional<ShellText> Interpreter::lookup_special(const std::string& name, int line) {
  if (name == "#") {
    if (state_.all_arguments || !state_.arguments.empty()) return ShellText(std::to_string(state_.argument_count()));
    return ShellText::of_unknown(unknown(Unknown::Kind::Count, "#", line));
  }
  if (name == "0" && !script_path_.empty()) return ShellText(script_path_);
  if (name == "0") return ShellText(name_);
  if (name == "PWD" && !state_.folder.empty()) return ShellText(state_.folder);
  if (name == "BASH_SOURCE") return ShellText(file_ > 0 ? files_.name(file_) : script_path_.empty() ? name_ : script_path_);
  if (name == "LINENO") return ShellText(std::to_string(line));
  if (name == "?" || name == "$" || name == "!" || name == "-" || name == "RANDOM" || name == "SECONDS")
    return ShellText::of_unknown(unknown(Unknown::Kind::Output, name.size() == 1 ? fmt::format("${}", name) : name, line));
  if (!all_digits(name)) return std::nullopt;
  const auto found = state_.arguments.find(std::stoi(name));
  return found == state_.arguments.end() ? std::nullopt : std::optional(found->second);
}

std::optional<ShellText> Interpreter::lookup_item(const ScriptVariable& variable, const ScriptPart& part) {
  if (variable.is_map) {
    const auto found = part.index ? variable.named.find(single(part.index).flat()) : variable.named.end();
    return found == variable.named.end() ? std::nullopt : std::optional(found->second);
  }
  long long index = 0;
  if (part.index) {
    const ArithmeticResult result = arithmetic(single(part.index), part.line);
    if (!result.unknowns.empty() || result.fault) return text_of(result, part.line);
    index = result.value;
  }
  if (!variable.is_array) return index == 0 ? std::optional(variable.text) : std::nullopt;
  if (index < 0 && !variable.items.empty()) index += variable.items.rbegin()->first + 1;
  const auto found = variable.items.find(index);
  return found == variable.items.end() ? std::nullopt : std::optional(found->second);
}

std::optional<ShellText> Interpreter::lookup(const ScriptPart& part) {
  if (part.prefix == '!' && !part.index) {
    ScriptPart named = part;
    named.prefix = 0, named.operation.clear(), named.operand = nullptr;
    const auto name = lookup(named);
    if (!name) return std::nullopt;
    if (!name->known()) return *name;
    named.name = name->plain();
    if (named.name.empty()) return std::nullopt;
    const auto value = lookup(named);
    return value ? value : unset_value(named.name, part.line);
  }
  const ScriptVariable* variable = state_.find(part.name);
  if (variable == nullptr) return lookup_special(part.name, part.line);
  if (!variable->is_array && !variable->is_map && !part.index) return variable->text;
  const VariablePointer kept = state_.variables.find(part.name);  // an index may assign
  return lookup_item(*kept, part);
}

// $@, $*, ${X[@]}, ${!X[@]}, and their slices and changes.
bool Interpreter::list_of(const ScriptPart& part, std::vector<ShellText>& texts) {
  if (part.prefix == '#') return false;
  const std::string index = part.index ? literal_text(*part.index) : "";
  const bool arguments = part.name == "@" || part.name == "*";
  if (!arguments && index != "@" && index != "*") return false;
  if (arguments) {
    for (const auto& [number, text] : state_.arguments) texts.push_back(text);
  } else if (const VariablePointer found = state_.variables.find(part.name)) {
    const ScriptVariable& variable = *found;
    budget_.spend(variable.items.size() + variable.named.size());
    if (part.prefix == '!') {
      for (const auto& [number, text] : variable.items) texts.emplace_back(std::to_string(number));
      for (const auto& [name, text] : variable.named) texts.emplace_back(name);
    } else {
      texts = variable.all();
    }
  } else if (!context_.assigned.contains(part.name) && part.name != "BASH_SOURCE") {
    texts = {unset_value(part.name, part.line)};
  }
  if (part.operation == ":") {
    const ArithmeticResult from = arithmetic(single(part.operand), part.line);
    long long first = from.value - (arguments ? 1 : 0);
    if (first < 0) first += static_cast<long long>(texts.size());
    first = std::clamp<long long>(first, 0, static_cast<long long>(texts.size()));
    texts.erase(texts.begin(), texts.begin() + first);
    if (part.second) {
      const ArithmeticResult count = arithmetic(single(part.second), part.line);
      if (count.value >= 0 && static_cast<std::size_t>(count.value) < texts.size())
        texts.resize(static_cast<std::size_t>(count.value));
    }
  } else if (!part.operation.empty() && std::string_view("-=+?").find(part.operation.back()) == std::string_view::npos) {
    for (ShellText& text : texts) text = change(part, text);
  }
  return true;
}

ShellText Interpreter::operate(const ScriptPart& part, const std::optional<ShellText>& value) {
  if (part.prefix == '#') {
    const std::string index = part.index ? literal_text(*part.index) : "";
    if (index == "@" || index == "*") {
      const ScriptVariable* variable = state_.find(part.name);
      return ShellText(std::to_string(variable == nullptr ? 0 : variable->all().size()));
    }
    const ShellText text = value ? *value : unset_value(part.name, part.line);
    return text.known() ? ShellText(std::to_string(text.size())) : unknowns_of(text);
  }
  if (!value) return change(part, unset_value(part.name, part.line));
  return change(part, *value);
}

ShellText Interpreter::change(const ScriptPart& part, const ShellText& value) {
  const std::string& operation = part.operation;
  if (operation.empty() || std::string_view("-=+?").find(operation.back()) != std::string_view::npos) return value;
  if (!value.known()) return unknowns_of(value);
  budget_.spend(value.size());
  if (operation[0] == '#' || operation[0] == '%') return without_affix(part, value);
  if (operation[0] == '/') return replaced(part, value);
  if (operation[0] == '^' || operation[0] == ',') return in_case(value, operation);
  if (operation == ":") return sliced(part, value);
  return ShellText::of_unknown(unknown(Unknown::Kind::Output, part.name, part.line, "an operation that is not followed"));
}

ShellText Interpreter::without_affix(const ScriptPart& part, const ShellText& value) {
  std::vector<int> unknowns;
  const std::string text = value.plain(), matched = pattern(*part.operand, unknowns);
  if (!unknowns.empty()) return ShellText::of_unknown(unknowns[0]);
  const bool prefix = part.operation[0] == '#', longest = part.operation.size() == 2;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t length = longest ? text.size() - i : i;
    budget_.spend(length * (matched.size() + 1));
    const std::string_view affix =
        prefix ? std::string_view(text).substr(0, length) : std::string_view(text).substr(text.size() - length);
    if (!matches_pattern(affix, matched)) continue;
    return prefix ? value.known_part(length, text.size()) : value.known_part(0, text.size() - length);
  }
  return value;
}

// ${X/pattern/text}: the longest match at the first place; "//": at every place; "/#", "/%": at an end.
ShellText Interpreter::replaced(const ScriptPart& part, const ShellText& value) {
  std::vector<int> unknowns;
  const std::string text = value.plain(), matched = pattern(*part.operand, unknowns);
  const ShellText by = single(part.second);
  if (!unknowns.empty() || matched.empty()) return matched.empty() ? value : ShellText::of_unknown(unknowns[0]);
  const bool every = part.operation == "//", front = part.operation == "/#", back = part.operation == "/%";
  ShellText result;
  std::size_t kept = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = text.size() - at;
    for (; length > 0; --length) {
      budget_.spend(length * (matched.size() + 1));
      if ((!back || at + length == text.size()) && matches_pattern(std::string_view(text).substr(at, length), matched)) break;
    }
    if (length == 0) {
      if (front) break;
      ++at;
      continue;
    }
    result.append(value.known_part(kept, at - kept));
    result.append(by);
    budget_.spend(by.size());
    budget_.check_size(result.size(), part.line);
    kept = at = at + length;
    if (!every) break;
  }
  result.append(value.known_part(kept, text.size()));
  return result;
}

ShellText Interpreter::sliced(const ScriptPart& part, const ShellText& value) {
  const auto size = static_cast<long long>(value.size());
  const ArithmeticResult from = arithmetic(single(part.operand), part.line);
  ArithmeticResult length;
  length.value = size;
  if (part.second) length = arithmetic(single(part.second), part.line);
  for (const ArithmeticResult& result : {from, length})
    if (result.fault || !result.unknowns.empty()) return text_of(result, part.line);
  const long long begin = std::clamp<long long>(from.value < 0 ? from.value + size : from.value, 0, size);
  const long long end = length.value < 0 ? size + length.value : begin + std::min(length.value, size - begin);
  return end <= begin ? ShellText() : value.known_part(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

}  // namespace panpipe::jobs
