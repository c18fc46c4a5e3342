#include "costmodel/schedule/parking.hpp"

#include <algorithm>

#include "costmodel/schedule/pass_costs.hpp"

namespace panpipe {

Parking::Parking(const Schedule& schedule, const Products& products) : products_(products) {
  const bool copies = std::any_of(schedule.order.begin(), schedule.order.end(), [](const std::vector<Action>& row) {
    return std::any_of(row.begin(), row.end(), [](const Action& a) { return is_copy(a.kind); });
  });
  if (!copies) return;
  gradient_.assign(products.places(), 0);
  recomputed_.assign(products.places(), 0);
  for (const auto& row : schedule.order)
    for (const Action& action : row)
      if (action.kind == ActionKind::R) recomputed_[place(action)] = 1;
}

double Parking::cost(const Action& copy, const PassCosts& costs) const {
  switch (of(copy)) {
    case Parked::Activation:
      return cost_of(copy.kind, costs);
    case Parked::Inputs:
      return 0;
    case Parked::Waiting:
      return costs.waiting * cost_of(copy.kind, costs);
  }
  return 0;
}

}  // namespace panpipe
