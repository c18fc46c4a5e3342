// Expressions of $((...)): whole numbers of 64 bits, as in C.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace panpipe::jobs {

struct ArithmeticResult {
  long long value = 0;
  std::vector<int> unknowns = {};  // indices of unknowns that it depends on
  bool fault = false;              // no expression, or a division by zero
};

struct ArithmeticVariables {
  // A variable's text as ShellText::flat has it. `index` is the text between brackets; empty: none.
  std::function<std::string(const std::string& name, const std::string& index)> read;
  std::function<void(const std::string& name, const std::string& index, const ArithmeticResult& value)> write;
};

// `text` may hold unknowns as ShellText::flat writes them.
ArithmeticResult evaluate_arithmetic(const std::string& text, const ArithmeticVariables& variables);

}  // namespace panpipe::jobs
