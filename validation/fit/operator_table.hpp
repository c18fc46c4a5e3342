// The table that `panpipe profile --operators` writes: one operator a line, with the work that its shapes say.
#pragma once

#include <string>
#include <vector>

namespace panpipe {

enum class OperatorKind { Product, Attention, Traffic, View, Other };

struct TimedOperator {
  std::string unit, name;
  OperatorKind kind = OperatorKind::Other;
  double work = 0;      // floating-point operations of the forward: products; attention as under a causal mask
  double elements = 0;  // read and written by the forward: Traffic
  double forward_s = 0, backward_s = 0;
};

// Throws InputError: not such a table, shapes or times that cannot be read.
std::vector<TimedOperator> read_operators(const std::string& path);
// Whether a file's heading is that of such a table; false for a file that cannot be read.
bool is_operator_table(const std::string& path);

}  // namespace panpipe
