#include "jobs/shell/shell_arithmetic.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "jobs/shell/shell_text.hpp"

namespace panpipe::jobs {
namespace {

using Wide = unsigned long long;
constexpr int kMostNesting = 60;

struct Fault {};

// Loosest first; operators of one row bind alike, from the left.
constexpr std::array<std::array<std::string_view, 4>, 10> kBinary = {
    {{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}}};

long long raised(long long base, long long exponent) {
  if (exponent < 0) throw Fault();
  Wide result = 1, factor = static_cast<Wide>(base);
  for (auto left = static_cast<Wide>(exponent); left > 0; left >>= 1) {
    if ((left & 1) != 0) result *= factor;
    factor *= factor;
  }
  return static_cast<long long>(result);
}

long long divided(long long a, long long b, bool remainder) {
  if (b == 0) throw Fault();
  if (b == -1) return remainder ? 0 : static_cast<long long>(Wide{0} - static_cast<Wide>(a));
  return remainder ? a % b : a / b;
}

long long combined(std::string_view operation, long long a, long long b) {
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
  if (operation == "<<") return static_cast<long long>(x << (y & 63));
  if (operation == ">>") return a >> (y & 63);
  if (operation == "+") return static_cast<long long>(x + y);
  if (operation == "-") return static_cast<long long>(x - y);
  if (operation == "*") return static_cast<long long>(x * y);
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
  void blanks() {
    while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '"')) ++at_;
  }
  bool take(std::string_view operation) {
    blanks();
    if (text_.compare(at_, operation.size(), operation) != 0) return false;
    at_ += operation.size();
    return true;
  }
  // An operator that is not the start of a longer one, nor of an assignment.
  bool take_binary(std::string_view operation) {
    blanks();
    if (text_.compare(at_, operation.size(), operation) != 0) return false;
    const char next = at_ + operation.size() < text_.size() ? text_[at_ + operation.size()] : '\0';
    const char c = operation[0];
    if (operation.size() == 1 && (next == '=' || ((c == '|' || c == '&' || c == '<' || c == '>' || c == '*') && next == c)))
      return false;
    if ((operation == "<<" || operation == ">>") && next == '=') return false;
    at_ += operation.size();
    return true;
  }

  ArithmeticResult comma() {
    if (++depth_ > kMostNesting) throw Fault();
    ArithmeticResult result = ternary();
    while (take(",")) result = ternary();
    --depth_;
    return result;
  }

  static void add_unknowns(ArithmeticResult& to, const ArithmeticResult& from) {
    for (const int unknown : from.unknowns)
      if (std::find(to.unknowns.begin(), to.unknowns.end(), unknown) == to.unknowns.end()) to.unknowns.push_back(unknown);
  }

  ArithmeticResult ternary() {
    if (++depth_ > kMostNesting) throw Fault();
    ArithmeticResult condition = binary(0);
    if (take("?")) {
      const bool skipped = skip_;
      const bool open = !condition.unknowns.empty();
      skip_ = skipped || (!open && condition.value == 0);
      ArithmeticResult yes = ternary();
      if (!take(":")) throw Fault();
      skip_ = skipped || (!open && condition.value != 0);
      ArithmeticResult no = ternary();
      skip_ = skipped;
      if (open) {
        add_unknowns(condition, yes);
        add_unknowns(condition, no);
      } else {
        condition = condition.value != 0 ? yes : no;
      }
    }
    --depth_;
    return condition;
  }

  ArithmeticResult binary(std::size_t row) {
    if (row == kBinary.size()) return power();
    ArithmeticResult left = binary(row + 1);
    while (true) {
      std::string_view found;
      for (const std::string_view operation : kBinary[row])
        if (found.empty() && !operation.empty() && take_binary(operation)) found = operation;
      if (found.empty()) return left;
      const bool skipped = skip_;
      const bool decided = left.unknowns.empty() && ((found == "&&" && left.value == 0) || (found == "||" && left.value != 0));
      skip_ = skipped || decided;
      const ArithmeticResult right = binary(row + 1);
      skip_ = skipped;
      if (decided) {
        left.value = found == "||" ? 1 : 0;
        continue;
      }
      add_unknowns(left, right);
      left.value = left.unknowns.empty() && !skip_ ? combined(found, left.value, right.value) : 0;
    }
  }

  ArithmeticResult power() {
    ArithmeticResult base = unary();
    if (!take("**")) return base;
    if (++depth_ > kMostNesting) throw Fault();
    const ArithmeticResult exponent = power();
    --depth_;
    add_unknowns(base, exponent);
    base.value = base.unknowns.empty() && !skip_ ? raised(base.value, exponent.value) : 0;
    return base;
  }

  ArithmeticResult unary() {
    if (++depth_ > kMostNesting) throw Fault();
    ArithmeticResult result;
    if (take("++") || take("--")) {
      const long long step = text_[at_ - 1] == '+' ? 1 : -1;
      blanks();
      const auto [name, index] = variable();
      if (name.empty()) throw Fault();
      result = changed(name, index, step);
    } else if (take("!")) {
      result = unary();
      result.value = result.value == 0;
    } else if (take("~")) {
      result = unary();
      result.value = ~result.value;
    } else if (take("-")) {
      result = unary();
      result.value = static_cast<long long>(Wide{0} - static_cast<Wide>(result.value));
    } else if (take("+")) {
      result = unary();
    } else {
      result = primary();
    }
    --depth_;
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
    ArithmeticResult result;
    result.value = static_cast<long long>(value_of(digits, base));
    return result;
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

  ArithmeticResult changed(const std::string& name, const std::string& index, long long step) {
    ArithmeticResult result = read(name, index);
    result.value = combined("+", result.value, step);
    if (!skip_) variables_.write(name, index, result);
    return result;
  }

  ArithmeticResult of_variable(const std::string& name, const std::string& index) {
    static constexpr std::string_view kAssigning[] = {"<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|="};
    blanks();
    for (const std::string_view operation : kAssigning) {
      if (!take(operation)) continue;
      const ArithmeticResult right = ternary();
      ArithmeticResult result = read(name, index);
      add_unknowns(result, right);
      if (result.unknowns.empty() && !skip_)
        result.value = combined(operation.substr(0, operation.size() - 1), result.value, right.value);
      if (!skip_) variables_.write(name, index, result);
      return result;
    }
    if (text_.compare(at_, 1, "=") == 0 && text_.compare(at_, 2, "==") != 0) {
      ++at_;
      ArithmeticResult result = ternary();
      if (!skip_) variables_.write(name, index, result);
      return result;
    }
    if (text_.compare(at_, 2, "++") == 0 || text_.compare(at_, 2, "--") == 0) {
      const long long step = text_[at_] == '+' ? 1 : -1;
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
    ArithmeticResult result;
    result.fault = true;
    return result;
  }
}

}  // namespace panpipe::jobs
