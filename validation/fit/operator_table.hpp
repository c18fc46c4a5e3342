// Reads the table of `panpipe profile --operators`: one operator per line, with the work derived from its shapes.
#pragma once

#include <string>
#include <vector>

namespace panpipe::validation {

enum class OperatorKind { Product, Attention, Traffic, View, Other };

struct TimedOperator {
  std::string unit, name;
  OperatorKind kind = OperatorKind::Other;
  double work = 0;      // floating-point operations of the forward, for products and for attention (under a causal mask)
  double elements = 0;  // read and written by the forward, for Traffic
  double forward_s = 0, backward_s = 0;
};

// Throws InputError for another table, or unreadable shapes or times.
std::vector<TimedOperator> read_operators(const std::string& path);
// True if a file has the heading of such a table; false for an unreadable file.
bool is_operator_table(const std::string& path);

}  // namespace panpipe::validation
