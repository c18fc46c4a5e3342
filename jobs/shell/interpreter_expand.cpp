// Words of a script with what they expand to.
#include <algorithm>

#include "jobs/shell/interpreter.hpp"
#include "jobs/shell/shell_braces.hpp"
#include "jobs/shell/shell_pattern.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kFieldCost = 64;  // in steps: about the bytes of an empty one

}  // namespace

Interpreter::Field& Interpreter::Fields::field() {
  if (!open) all.emplace_back();
  open = true;
  return all.back();
}

void Interpreter::Fields::close() { open = false; }

std::vector<Interpreter::Field> Interpreter::expand(const std::vector<ScriptWord>& words) {
  Fields fields;
  for (const ScriptWord& word : words) {
    fields.close();
    const std::size_t before = fields.all.size();
    expand_word(word, fields);
    budget_.spend(kFieldCost * (fields.all.size() - before));
  }
  return std::move(fields.all);
}

void Interpreter::expand_word(const ScriptWord& word, Fields& fields) {
  if (word.line > 0) line_ = word.line;
  if (word.parts.size() == 1 && word.parts[0].kind == ScriptPart::Kind::Literal && !word.parts[0].quoted) {
    const std::vector<std::string> texts = expanded_braces(word.parts[0].literal.flat());
    budget_.spend(texts.size());
    for (const std::string& text : texts) {
      fields.close();
      put(fields, ShellText(text), true);
    }
    if (!texts.empty()) return;
  }
  for (const ScriptPart& part : word.parts) expand_part(part, fields);
}

void Interpreter::expand_part(const ScriptPart& part, Fields& fields) {
  budget_.spend(1);
  if (part.kind == ScriptPart::Kind::Literal) return put_literal(part, fields);
  const bool parameter = part.kind == ScriptPart::Kind::Parameter;
  if (parameter && part.prefix == 0 && part.operand && !part.operation.empty() &&
      std::string_view("-=+").find(part.operation.back()) != std::string_view::npos) {
    std::vector<ShellText> texts;
    const bool list = list_of(part, texts);
    std::optional<ShellText> value = list ? std::nullopt : lookup(part);
    if (list && !texts.empty()) value = texts.size() > 1 ? ShellText("several") : texts[0];
    if (uses_operand(part, value)) {
      if (part.operation.back() == '=') {
        const ShellText text = single(part.operand);
        set(part.name, text);
        return put(fields, text, part.quoted);
      }
      return put_operand(*part.operand, part.quoted, fields);
    }
    if (part.operation.back() == '+') return put(fields, ShellText(), part.quoted);
  }
  std::vector<ShellText> texts;
  if (parameter && list_of(part, texts)) return put_list(fields, texts, part.quoted, joint_of(part));
  put(fields, value_of(part), part.quoted);
}

void Interpreter::put_literal(const ScriptPart& part, Fields& fields) {
  if (part.literal.empty() && !part.quoted) return;
  const std::string text = part.literal.flat();
  const bool home = !part.quoted && !fields.open && text[0] == '~' && (text.size() == 1 || text[1] == '/');
  Field& field = fields.field();
  budget_.spend(part.literal.size());
  if (home) {
    const ScriptVariable* found = state_.find("HOME");
    field.text.append(found ? found->text : unset_value("HOME", part.line));
    field.text.append(part.literal.known() ? part.literal.known_part(1, text.size()) : ShellText(text.substr(1)));
  } else {
    field.text.append(part.literal);
  }
  field.quoted |= part.quoted;
  // Text of eval holds unknowns as literals: such a word may be any number of words.
  field.alone = field.alone && !part.quoted && part.literal.unknowns().size() == 1 && part.literal.size() == 1;
}

// `+` where the variable is set, `-` and `=` where it is not; with a colon an empty value counts as none.
bool Interpreter::uses_operand(const ScriptPart& part, const std::optional<ShellText>& value) const {
  const bool set = value && (part.operation[0] != ':' || !value->empty());
  return part.operation.back() == '+' ? set : !set;
}

// The words of ${X:-words}: split where neither they nor the expansion are quoted.
void Interpreter::put_operand(const ScriptWord& word, bool quoted, Fields& fields) {
  const Level level(*this);
  if (quoted) fields.field().quoted = true;
  for (const ScriptPart& part : word.parts) {
    if (part.kind == ScriptPart::Kind::Literal)
      put(fields, part.literal, quoted || part.quoted);
    else
      expand_part(part, fields);
  }
}

void Interpreter::put(Fields& fields, const ShellText& text, bool quoted) {
  budget_.spend(text.size() + 1);
  if (quoted) {
    Field& field = fields.field();
    field.text.append(text);
    field.quoted = true, field.alone = false;
    return budget_.check_size(field.text.size(), line_);
  }
  const ScriptVariable* separators = state_.find("IFS");
  const std::string blanks = separators && separators->text.known() ? separators->text.plain() : " \t\n";
  for (const ShellPiece& piece : text.pieces()) {
    if (piece.note >= 0) used_notes_.push_back(piece.note);
    if (piece.unknown >= 0) {
      fields.field().text.append(piece);
      continue;
    }
    for (std::size_t at = 0; at < piece.text.size();) {
      const bool blank = blanks.find(piece.text[at]) != std::string::npos;
      std::size_t end = at;
      while (end < piece.text.size() && (blanks.find(piece.text[end]) != std::string::npos) == blank) ++end;
      if (blank) {
        fields.close();
      } else {
        ShellPiece cut = piece;
        cut.text = piece.text.substr(at, end - at);
        cut.offset += at;
        fields.field().text.append(std::move(cut));
      }
      at = end;
    }
  }
}

// Of "$*" and "${X[*]}" the first character of IFS.
std::optional<std::string> Interpreter::joint_of(const ScriptPart& part) const {
  if ((part.index ? literal_text(*part.index) : part.name) != "*") return std::nullopt;
  const ScriptVariable* separators = state_.find("IFS");
  return separators && separators->text.known() ? separators->text.plain().substr(0, 1) : " ";
}

void Interpreter::put_list(Fields& fields, const std::vector<ShellText>& texts, bool quoted,
                           const std::optional<std::string>& joint) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0 && quoted && joint)
      fields.field().text.append(*joint);
    else if (i > 0)
      fields.close();
    put(fields, texts[i], quoted);
    // An array that differs by a condition has one unknown item for any number of them.
    if (quoted && texts[i].size() == 1 && !texts[i].known()) fields.field().alone = true;
  }
  if (quoted && joint && texts.empty()) put(fields, ShellText(), true);
}

ShellText Interpreter::single(const ScriptWord& word) {
  Fields fields;
  for (const ScriptPart& part : word.parts) {
    std::vector<ShellText> texts;
    if (part.kind == ScriptPart::Kind::Parameter && part.operation.empty() && list_of(part, texts)) {
      put_list(fields, texts, true, joint_of(part).value_or(" "));
      continue;
    }
    ScriptPart quoted = part;
    quoted.quoted = quoted.quoted || part.kind != ScriptPart::Kind::Literal;
    expand_part(quoted, fields);
  }
  ShellText text;
  for (std::size_t i = 0; i < fields.all.size(); ++i) {
    if (i > 0) text.append(" ");
    text.append(fields.all[i].text);
  }
  for (const ShellPiece& piece : text.pieces())
    if (piece.note >= 0) used_notes_.push_back(piece.note);
  budget_.check_size(text.size(), line_);
  return text;
}

// A pattern: what is quoted in it is itself.
std::string Interpreter::pattern(const ScriptWord& word, std::vector<int>& unknowns) {
  std::string pattern;
  for (const ScriptPart& part : word.parts) {
    ScriptWord one;
    one.parts = {part};
    const ShellText text = single(one);
    for (const int unknown : text.unknowns()) unknowns.push_back(unknown);
    for (const char c : text.flat()) {
      if (part.quoted && std::string_view("*?[]\\").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  if (names_character(pattern))
    unknowns.push_back(unknown(Unknown::Kind::Output, pattern, word.line, "a pattern that is not followed"));
  return pattern;
}

ShellText Interpreter::value_of(const ScriptPart& part) {
  if (part.line > 0) line_ = part.line;
  switch (part.kind) {
    case ScriptPart::Kind::Literal:
      return part.literal;
    case ScriptPart::Kind::Arithmetic:
      return text_of(arithmetic(single(part.operand), part.line), part.line);
    case ScriptPart::Kind::Command:
      return substitute(part);
    case ScriptPart::Kind::Process:
      return ShellText::of_unknown(unknown(Unknown::Kind::Output, "<(...)", part.line));
    case ScriptPart::Kind::Parameter:
      break;
  }
  return operate(part, lookup(part));
}

namespace {

// A command that is nothing but an input; null: it is something else.
const ScriptCommand* only_input(const CommandList& commands) {
  if (commands.size() != 1 || commands[0]->kind != ScriptCommand::Kind::Simple) return nullptr;
  const ScriptCommand& command = *commands[0];
  const bool bare = command.words.empty() && command.assignments.empty() && command.redirects.size() == 1;
  return bare && command.redirects[0].operation == "<" ? &command : nullptr;
}

}  // namespace

// The output of $(...), without the line ends behind it.
ShellText Interpreter::substitute(const ScriptPart& part) {
  const Level level(*this);
  ShellText output;
  ShellText* outer = output_;
  output_ = &output;
  if (const ScriptCommand* file = only_input(part.body)) {  // $(< FILE)
    const auto text = input_of(*file);
    print(text ? *text : ShellText::of_unknown(unknown(Unknown::Kind::Output, "$(< ...)", part.line)));
  } else {
    run_apart([&] { return run(part.body); });
  }
  output_ = outer;
  std::vector<ShellPiece>& pieces = output.pieces();
  while (!pieces.empty() && pieces.back().unknown < 0) {
    std::string& text = pieces.back().text;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (!text.empty()) break;
    pieces.pop_back();
  }
  line_ = part.line;
  return output;
}

ArithmeticVariables Interpreter::arithmetic_variables(int line) {
  const auto key = [this, line](const std::string& name, const std::string& index) {
    const ScriptVariable* variable = state_.find(name);
    return variable && variable->is_map ? index : text_of(arithmetic(ShellText(index), line), line).plain();
  };
  return {[this, line, key](const std::string& name, const std::string& index) {
            ScriptPart part;
            part.kind = ScriptPart::Kind::Parameter, part.name = name, part.line = line;
            if (!index.empty()) {
              ScriptPart literal;
              literal.literal = ShellText(key(name, index));
              part.index = std::make_shared<ScriptWord>();
              part.index->parts = {literal};
            }
            const auto value = lookup(part);
            const std::string text = (value ? *value : unset_value(name, line)).flat();
            budget_.spend(text.size() + 1);
            return text;
          },
          [this, line, key](const std::string& name, const std::string& index, const ArithmeticResult& value) {
            if (index.empty())
              set(name, text_of(value, line));
            else
              set_item(name, key(name, index), text_of(value, line));
          }};
}

ArithmeticResult Interpreter::arithmetic(const ShellText& expression, int line) {
  const Level level(*this);
  const std::string text = expression.flat();
  budget_.spend(text.size() + 1);
  return evaluate_arithmetic(text, arithmetic_variables(line));
}

ShellText Interpreter::text_of(const ArithmeticResult& result, int line) {
  if (result.fault)
    return ShellText::of_unknown(unknown(Unknown::Kind::Output, "$((...))", line, "no expression of whole numbers"));
  if (result.unknowns.empty()) return ShellText(std::to_string(result.value));
  ShellText text;
  for (const int unknown : result.unknowns) text.append(ShellText::of_unknown(unknown));
  return text;
}

}  // namespace panpipe::jobs
