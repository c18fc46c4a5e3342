// How much longer a cluster takes than the start of a fit states, in everything: found before the numbers are fitted, because the
// weak pull of each number to its start would leave a part of what they have in common. Private to this folder.
#pragma once

#include "validation/fit/robust_loss.hpp"
#include "validation/fit/row_model.hpp"

namespace panpipe::validation {

// `starts`, the logarithms of the numbers, with all times longer by one factor: that which makes the rows' loss least. Numbers
// that are no times stay, and each stays in its range.
struct FactoredStart {
  Vector starts;
  double log_factor = 0;
};
FactoredStart factored_start(const RowModel& model, const Vector& weights, const RobustLoss& loss, const Vector& starts);

}  // namespace panpipe::validation
