// [ ... ], test and [[ ... ]].
#include <fmt/format.h>

#include <algorithm>

#include "base/text/characters.hpp"
#include "jobs/shell/interpreter.hpp"
#include "jobs/shell/shell_pattern.hpp"

namespace panpipe::jobs {

class ConditionReader {
 public:
  struct Token {
    ShellText text;
    std::string pattern;  // of [[: what it matches as a pattern
    bool plain = false;   // nothing in it is quoted: it may be an operator
  };

  ConditionReader(Interpreter& interpreter, std::vector<Token> tokens, bool brackets, int line)
      : in_(interpreter), tokens_(std::move(tokens)), brackets_(brackets), line_(line) {}

  Outcome read() {
    if (tokens_.empty()) return Outcome::of(false);
    Outcome outcome = alternatives();
    return at_ == tokens_.size() ? outcome : Outcome::of(false);
  }

 private:
  bool is(std::size_t at, std::string_view word) const {
    return at < tokens_.size() && tokens_[at].plain && tokens_[at].text.known() && tokens_[at].text.plain() == word;
  }
  bool take(std::string_view word) {
    if (!is(at_, word)) return false;
    ++at_;
    return true;
  }

  Outcome alternatives() {
    Outcome outcome = conjunction();
    while (take("||") || (!brackets_ && take("-o"))) outcome = either(outcome, conjunction());
    return outcome;
  }

  Outcome conjunction() {
    Outcome outcome = negation();
    while (take("&&") || (!brackets_ && take("-a"))) outcome = both(outcome, negation());
    return outcome;
  }

  Outcome negation() {
    const Interpreter::Level level(in_);
    bool negated = false;
    while (at_ + 1 < tokens_.size() && take("!")) negated = !negated;
    Outcome outcome = primary();
    return negated ? outcome.negated() : outcome;
  }

  Outcome primary() {
    if (at_ >= tokens_.size()) return Outcome::of(false);
    if (at_ + 1 < tokens_.size() && take("(")) {
      Outcome outcome = alternatives();
      take(")");
      return outcome;
    }
    if (at_ + 2 < tokens_.size() && is_binary(at_ + 1)) {
      at_ += 3;
      return compared(tokens_[at_ - 3], tokens_[at_ - 2].text.plain(), tokens_[at_ - 1]);
    }
    const std::string first = tokens_[at_].plain && tokens_[at_].text.known() ? tokens_[at_].text.plain() : "";
    if (at_ + 1 < tokens_.size() && first.size() == 2 && first[0] == '-') {
      at_ += 2;
      return asked(first[1], tokens_[at_ - 1].text);
    }
    return empty(tokens_[at_++].text).negated();
  }

  bool is_binary(std::size_t at) const {
    for (const std::string_view word :
         {"=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"})
      if (is(at, word)) return true;
    return false;
  }

  // What the environment may hold counts as not set, where a script asks whether it is.
  Outcome empty(const ShellText& text) const {
    if (text.known()) return Outcome::of(text.empty());
    if (text.size() > text.unknowns().size()) return Outcome::of(false);
    for (const int index : text.unknowns()) {
      const Unknown::Kind kind = in_.unknowns_[static_cast<std::size_t>(index)].kind;
      if (kind != Unknown::Kind::Variable && kind != Unknown::Kind::Argument) return Outcome::unknown(text.unknowns());
    }
    Outcome outcome = Outcome::of(true);
    outcome.presumed = true;
    return outcome;
  }

  Outcome asked(char question, const ShellText& about) {
    if (question == 'z') return empty(about);
    if (question == 'n') return empty(about).negated();
    if (question == 'v') return Outcome::of(about.known() && in_.state_.find(about.plain()) != nullptr);
    if (question == 't') return Outcome::of(false);
    const auto written = in_.written_.find(about.flat());
    if (written != in_.written_.end() && std::string_view("efsrw").find(question) != std::string_view::npos)
      return Outcome::of(question != 's' || !written->second.text.empty());
    const std::string path = one_line_of(in_.spelled(about));
    Outcome outcome = Outcome::unknown({in_.unknown(Unknown::Kind::Output, fmt::format("-{} {}", question, path), line_)});
    outcome.assumed = false;
    outcome.note = in_.note(fmt::format("line {}: {} is taken not to exist.", line_, path));
    return outcome;
  }

  static std::string one_line_of(const std::string& text) {
    return without_controls(text.size() > 60 ? "..." + text.substr(text.size() - 57) : text);
  }

  Outcome compared(const Token& left, const std::string& operation, const Token& right) {
    if (operation == "=" || operation == "==") return equal(left, right);
    if (operation == "!=") return equal(left, right).negated();
    std::vector<int> unknowns = left.text.unknowns();
    for (const int unknown : right.text.unknowns()) unknowns.push_back(unknown);
    if (operation[0] == '-' && operation != "-nt" && operation != "-ot" && operation != "-ef")
      return numbers(left.text, operation, right.text);
    if (!unknowns.empty()) return Outcome::unknown(unknowns);
    if (operation == "<") return Outcome::of(left.text.plain() < right.text.plain());
    if (operation == ">") return Outcome::of(left.text.plain() > right.text.plain());
    return Outcome::unknown({in_.unknown(Unknown::Kind::Output, operation, line_, "a comparison that is not followed")});
  }

  Outcome equal(const Token& left, const Token& right) const {
    if (left.text.known() && right.text.known()) {
      if (!brackets_) return Outcome::of(left.text.plain() == right.text.plain());
      in_.budget_.spend((left.text.size() + 1) * (right.pattern.size() + 1));
      if (!is_extended_pattern(right.pattern)) return Outcome::of(matches_pattern(left.text.plain(), right.pattern));
      return Outcome::unknown({in_.unknown(Unknown::Kind::Output, "[[", line_, "a pattern that is not followed")});
    }
    // "x$NAME" = "x": the same as asking whether $NAME is empty.
    const std::string a = left.text.flat(), b = right.text.flat();
    const std::string& open = left.text.known() ? b : a;
    const std::string& fixed = left.text.known() ? a : b;
    if (open.compare(0, fixed.size(), fixed) == 0) {
      ShellText rest;
      for (const int unknown : (left.text.known() ? right : left).text.unknowns()) rest.append(ShellText::of_unknown(unknown));
      if (open.size() > fixed.size() && open[fixed.size()] == kUnknownBegin && fixed.find(kUnknownBegin) == std::string::npos)
        return empty(rest);
    }
    std::vector<int> unknowns = left.text.unknowns();
    for (const int unknown : right.text.unknowns()) unknowns.push_back(unknown);
    Outcome outcome = Outcome::unknown(unknowns);
    if (left.text.known() != right.text.known()) outcome.likely = false;
    return outcome;
  }

  Outcome numbers(const ShellText& left, const std::string& operation, const ShellText& right) {
    const ArithmeticResult a = number(left), b = number(right);
    if (a.fault || b.fault) return Outcome::of(false);
    const bool yes = operation == "-eq"   ? a.value == b.value
                     : operation == "-ne" ? a.value != b.value
                     : operation == "-lt" ? a.value < b.value
                     : operation == "-le" ? a.value <= b.value
                     : operation == "-gt" ? a.value > b.value
                                          : a.value >= b.value;
    std::vector<int> unknowns = a.unknowns;
    unknowns.insert(unknowns.end(), b.unknowns.begin(), b.unknowns.end());
    if (unknowns.empty()) return Outcome::of(yes);
    Outcome outcome = Outcome::unknown(unknowns);
    // Without arguments $# is 0, and a script may refuse that: both ways count, and loops over arguments end.
    const auto counts = [&](int unknown) {
      return in_.unknowns_[static_cast<std::size_t>(unknown)].kind == Unknown::Kind::Count;
    };
    if (std::all_of(unknowns.begin(), unknowns.end(), counts)) outcome.assumed = yes;
    return outcome;
  }

  ArithmeticResult number(const ShellText& text) const {
    ArithmeticResult result;
    if (!text.known() || brackets_) return in_.arithmetic(text, line_);
    if (text.empty()) result.fault = true;
    return result.fault ? result : in_.arithmetic(text, line_);
  }

  Interpreter& in_;
  std::vector<Token> tokens_;
  bool brackets_;  // [[
  int line_;
  std::size_t at_ = 0;
};

Outcome Interpreter::test(const ScriptCommand& command, const std::vector<Field>& words) {
  std::vector<ConditionReader::Token> tokens;
  for (std::size_t i = 1; i < words.size(); ++i) tokens.push_back({words[i].text, "", true});
  if (!tokens.empty() && words[0].text.plain() == "[") tokens.pop_back();
  return ConditionReader(*this, std::move(tokens), false, command.line).read();
}

Outcome Interpreter::test_words(const std::vector<ScriptWord>& words, int line) {
  std::vector<ConditionReader::Token> tokens;
  for (std::size_t i = 0; i < words.size(); ++i) {
    ConditionReader::Token token;
    token.text = single(words[i]);
    std::vector<int> unknowns;
    token.pattern = pattern(words[i], unknowns);
    const bool one = words[i].parts.size() == 1 && words[i].parts[0].kind == ScriptPart::Kind::Literal;
    token.plain = one && !words[i].parts[0].quoted;
    tokens.push_back(std::move(token));
  }
  return ConditionReader(*this, std::move(tokens), true, line).read();
}

}  // namespace panpipe::jobs
