#include "jobs/shell/shell_arithmetic.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "jobs/shell/shell_text.hpp"

namespace panpipe::jobs {
namespace {

using Signed = long long;
using Wide = unsigned long long;
constexpr int kMostNesting = 60;

struct Fault {};

struct ArithmeticOperator {
  std::string_view text;
  int binding;  // the tighter, the larger
  bool assigns = false;
};
constexpr int kPower = 11;  // binds from the right
// An operator stands before those that it begins with.
constexpr ArithmeticOperator kOperators[] = {{"||", 1},      {"&&", 2},       {"==", 6},       {"!=", 6},      {"<=", 7},
                                             {">=", 7},      {"<<", 8, true}, {">>", 8, true}, {"**", kPower}, {"|", 3, true},
                                             {"^", 4, true}, {"&", 5, true},  {"<", 7},        {">", 7},       {"+", 9, true},
                                             {"-", 9, true}, {"*", 10, true}, {"/", 10, true}, {"%", 10, true}};

Signed raised(Signed base, Signed exponent) {
  if (exponent < 0) throw Fault();
  Wide result = 1, factor = static_cast<Wide>(base);
  for (auto left = static_cast<Wide>(exponent); left > 0; left >>= 1) {
    if ((left & 1) != 0) result *= factor;
    factor *= factor;
  }
  return static_cast<Signed>(result);
}

Signed divided(Signed a, Signed b, bool remainder) {
  if (b == 0) throw Fault();
  if (b == -1) return remainder ? 0 : static_cast<Signed>(Wide{0} - static_cast<Wide>(a));
  return remainder ? a % b : a / b;
}

Signed combined(std::string_view operation, Signed a, Signed b) {
  const auto x = static_cast<Wide>(a), y = static_cast<Wide>(b);
  if (operation == "||") return a != 0 || b != 0;
  if (operation == "&&") return a != 0 && b != 0;
  if (operation == "|") return a | b;
  if (operation == "^") return a ^ b;
  if (operation == "&") return a & b;
  if (operation == "==") return a == b;
  if (operation == "!=") return a != b;
  if (operation == "<=") return a <= b;
  if (operation == ">=") return a >= b;
  if (operation == "<") return a < b;
  if (operation == ">") return a > b;
  if (operation == "<<") return static_cast<Signed>(x << (y & 63));
  if (operation == ">>") return a >> (y & 63);
  if (operation == "+") return static_cast<Signed>(x + y);
  if (operation == "-") return static_cast<Signed>(x - y);
  if (operation == "**") return raised(a, b);
  if (operation == "*") return static_cast<Signed>(x * y);
  return divided(a, b, operation == "%");
}

class Expression {
 public:
  Expression(std::string text, const ArithmeticVariables& variables, int depth)
      : text_(std::move(text)), variables_(variables), depth_(depth) {}

  ArithmeticResult value() {
    if (depth_ > kMostNesting) throw Fault();
    blanks();
    if (at_ == text_.size()) return {};
    ArithmeticResult result = comma();
    if (at_ != text_.size()) throw Fault();
    return result;
  }

 private:
  template <class Part>
  ArithmeticResult nested(Part part) {
    if (++depth_ > kMostNesting) throw Fault();
    ArithmeticResult result = part();
    --depth_;
    return result;
  }
  void blanks() {
    while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '"')) ++at_;
  }
  bool looking_at(std::string_view word) const { return text_.compare(at_, word.size(), word) == 0; }
  bool take(std::string_view word) {
    blanks();
    if (!looking_at(word)) return false;
    at_ += word.size();
    return true;
  }
  // The operator that stands here, alone or as an assignment: += and its like.
  const ArithmeticOperator* operator_here(bool assignment) {
    blanks();
    for (const ArithmeticOperator& one : kOperators) {
      if (!looking_at(one.text)) continue;
      const std::size_t end = at_ + one.text.size();
      return (one.assigns && end < text_.size() && text_[end] == '=') == assignment ? &one : nullptr;
    }
    return nullptr;
  }
  // A part whose value does not count if `skips`: nothing in it is read or assigned.
  template <class Part>
  ArithmeticResult part(bool skips, Part read) {
    const bool skipped = std::exchange(skip_, skip_ || skips);
    ArithmeticResult result = read();
    skip_ = skipped;
    return result;
  }

  ArithmeticResult comma() {
    return nested([&] {
      ArithmeticResult result = ternary();
      while (take(",")) result = ternary();
      return result;
    });
  }

  static void add_unknowns(ArithmeticResult& to, const ArithmeticResult& from) {
    for (const int unknown : from.unknowns)
      if (std::find(to.unknowns.begin(), to.unknowns.end(), unknown) == to.unknowns.end()) to.unknowns.push_back(unknown);
  }

  ArithmeticResult ternary() {
    return nested([&] { return choice(); });
  }
  ArithmeticResult choice() {
    ArithmeticResult condition = binary(1);
    if (!take("?")) return condition;
    const bool open = !condition.unknowns.empty(), holds = condition.value != 0;
    const ArithmeticResult yes = part(!open && !holds, [&] { return ternary(); });
    if (!take(":")) throw Fault();
    const ArithmeticResult no = part(!open && holds, [&] { return ternary(); });
    if (!open) return holds ? yes : no;
    add_unknowns(condition, yes);
    add_unknowns(condition, no);
    return condition;
  }

  // Operators that bind as `least` at least.
  ArithmeticResult binary(int least) {
    ArithmeticResult left = unary();
    while (true) {
      const ArithmeticOperator* found = operator_here(false);
      if (found == nullptr || found->binding < least) return left;
      at_ += found->text.size();
      const bool decided =
          left.unknowns.empty() && ((found->text == "&&" && left.value == 0) || (found->text == "||" && left.value != 0));
      const ArithmeticResult right = part(
          decided, [&] { return found->binding < kPower ? binary(found->binding + 1) : nested([&] { return binary(kPower); }); });
      if (decided) {
        left.value = left.value != 0;
        continue;
      }
      add_unknowns(left, right);
      left.value = left.unknowns.empty() && !skip_ ? combined(found->text, left.value, right.value) : 0;
    }
  }

  ArithmeticResult unary() {
    return nested([&] { return prefixed(); });
  }
  ArithmeticResult prefixed() {
    if (take("++") || take("--")) {
      const Signed step = text_[at_ - 1] == '+' ? 1 : -1;
      blanks();
      const auto [name, index] = variable();
      if (name.empty()) throw Fault();
      return changed(name, index, step);
    }
    blanks();
    const char sign = at_ < text_.size() ? text_[at_] : '\0';
    if (sign == '\0' || std::string_view("!~-+").find(sign) == std::string_view::npos) return primary();
    ++at_;
    ArithmeticResult result = unary();
    if (sign == '!') result.value = result.value == 0;
    if (sign == '~') result.value = ~result.value;
    if (sign == '-') result.value = combined("-", 0, result.value);
    return result;
  }

  ArithmeticResult primary() {
    if (take("(")) {
      ArithmeticResult result = comma();
      if (!take(")")) throw Fault();
      return result;
    }
    blanks();
    if (at_ >= text_.size()) throw Fault();
    if (text_[at_] == kUnknownBegin) return unknown();
    if (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return number();
    const auto [name, index] = variable();
    if (name.empty()) throw Fault();
    return of_variable(name, index);
  }

  // Digits around an unknown are part of it: 1$X.
  ArithmeticResult unknown() {
    ArithmeticResult result;
    while (at_ < text_.size() && text_[at_] == kUnknownBegin) {
      const std::size_t end = text_.find(kUnknownEnd, at_);
      result.unknowns.push_back(std::atoi(text_.substr(at_ + 1, end - at_ - 1).c_str()));
      at_ = end + 1;
      while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    }
    return result;
  }

  ArithmeticResult number() {
    const std::size_t begin = at_;
    const auto is_digit = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '#' || c == '_' || c == '@';
    };
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ < text_.size() && text_[at_] == kUnknownBegin) return unknown();
    std::string digits = text_.substr(begin, at_ - begin);
    Wide base = 10;
    const std::size_t mark = digits.find('#');
    if (mark != std::string::npos) {
      base = static_cast<Wide>(std::atoi(digits.substr(0, std::min<std::size_t>(mark, 3)).c_str()));
      digits.erase(0, mark + 1);
    } else if (digits.size() > 1 && digits[0] == '0') {
      const bool hexadecimal = digits[1] == 'x' || digits[1] == 'X';
      base = hexadecimal ? 16 : 8;
      digits.erase(0, hexadecimal ? 2 : 1);
    }
    return {static_cast<Signed>(value_of(digits, base))};
  }

  static Wide value_of(const std::string& digits, Wide base) {
    if (base < 2 || base > 36 || digits.empty()) throw Fault();
    Wide value = 0;
    for (const char c : digits) {
      const int digit = std::isdigit(static_cast<unsigned char>(c)) != 0   ? c - '0'
                        : std::isalpha(static_cast<unsigned char>(c)) != 0 ? std::tolower(c) - 'a' + 10
                                                                           : 99;
      if (static_cast<Wide>(digit) >= base) throw Fault();
      value = value * base + static_cast<Wide>(digit);
    }
    return value;
  }

  // NAME or NAME[index]; empty: none stands here.
  std::pair<std::string, std::string> variable() {
    const std::size_t begin = at_;
    const auto letter = [&](std::size_t i) { return std::isalnum(static_cast<unsigned char>(text_[i])) != 0 || text_[i] == '_'; };
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return {};
    while (at_ < text_.size() && letter(at_)) ++at_;
    std::pair<std::string, std::string> found{text_.substr(begin, at_ - begin), ""};
    if (found.first.empty() || at_ >= text_.size() || text_[at_] != '[') return found;
    const std::size_t open = ++at_;
    for (int depth = 1; depth > 0; ++at_) {
      if (at_ >= text_.size()) throw Fault();
      depth += text_[at_] == '[' ? 1 : text_[at_] == ']' ? -1 : 0;
    }
    found.second = text_.substr(open, at_ - open - 1);
    return found;
  }

  ArithmeticResult read(const std::string& name, const std::string& index) {
    if (skip_) return {};
    return Expression(variables_.read(name, index), variables_, depth_ + 8).value();
  }

  ArithmeticResult changed(const std::string& name, const std::string& index, Signed step) {
    ArithmeticResult result = read(name, index);
    result.value = combined("+", result.value, step);
    if (!skip_) variables_.write(name, index, result);
    return result;
  }

  ArithmeticResult of_variable(const std::string& name, const std::string& index) {
    const ArithmeticOperator* with = operator_here(true);
    if (with != nullptr || (looking_at("=") && !looking_at("=="))) {
      at_ += with != nullptr ? with->text.size() + 1 : 1;
      ArithmeticResult result = ternary();
      if (with != nullptr) {
        const ArithmeticResult right = std::exchange(result, read(name, index));
        add_unknowns(result, right);
        if (result.unknowns.empty() && !skip_) result.value = combined(with->text, result.value, right.value);
      }
      if (!skip_) variables_.write(name, index, result);
      return result;
    }
    if (looking_at("++") || looking_at("--")) {
      const Signed step = text_[at_] == '+' ? 1 : -1;
      at_ += 2;
      ArithmeticResult result = changed(name, index, step);
      result.value = combined("-", result.value, step);
      return result;
    }
    return read(name, index);
  }

  std::string text_;
  const ArithmeticVariables& variables_;
  int depth_;
  bool skip_ = false;  // the branch that is not taken
  std::size_t at_ = 0;
};

}  // namespace

ArithmeticResult evaluate_arithmetic(const std::string& text, const ArithmeticVariables& variables) {
  try {
    return Expression(text, variables, 0).value();
  } catch (const Fault&) {
    return {.fault = true};
  }
}

}  // namespace panpipe::jobs
