#include "schedule/memory/parking.hpp"

#include <algorithm>

#include "schedule/pass_costs.hpp"

namespace panpipe {

Parking::Parking(const Schedule& schedule, const Products& products, const PassCosts& costs)
    : products_(products), costs_(costs), free_at_(schedule.order.size(), 0) {
  if (find_action(schedule, is_copy) == nullptr) return;
  gradient_.assign(products.places(), 0);
  recomputed_.assign(products.places(), 0);
  for (const auto& row : schedule.order)
    for (const Action& action : row)
      if (action.kind == ActionKind::R) recomputed_[place(action)] = 1;
}

// Between F and its backward a copy moves all that F kept, or, where the stage is recomputed, its inputs, which count and cost
// nothing with plain costs; between I and W it moves what the weight gradient reads.
double Parking::cost(const Action& copy) const {
  const double whole = cost_of(copy.kind, costs_);
  if (gradient_[place(copy)]) return costs_.waiting * whole;
  return recomputed_[place(copy)] ? 0 : whole;
}

std::pair<double, double> Parking::run(const Action& copy, std::size_t rank, double now) {
  const double start = std::max(now, free_at_[rank]), end = start + cost(copy);
  free_at_[rank] = end;
  if (copy.kind == ActionKind::Reload) {
    reloaded_.resize(products_.places(), 0);
    reloaded_[place(copy)] = end;
  }
  return {start, end};
}

}  // namespace panpipe
