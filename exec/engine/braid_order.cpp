#include "exec/engine/braid_order.hpp"

#include <cstdint>

namespace panpipe::exec {

std::vector<int> woven(const std::vector<int>& steps) {
  std::vector<int> done(steps.size(), 0), order;
  while (true) {
    int next = -1;
    for (int p = 0; p < static_cast<int>(steps.size()); ++p) {
      const auto i = static_cast<std::size_t>(p);
      if (done[i] == steps[i]) continue;
      if (next < 0) {
        next = p;
        continue;
      }
      // Shares compared without rounding: done / steps.
      const auto n = static_cast<std::size_t>(next);
      if (static_cast<std::int64_t>(done[i]) * steps[n] < static_cast<std::int64_t>(done[n]) * steps[i]) next = p;
    }
    if (next < 0) return order;
    ++done[next];
    order.push_back(next);
  }
}

}  // namespace panpipe::exec
