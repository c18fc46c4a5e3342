// Finds free intervals of a copy lane.
#pragma once

#include <map>
#include <optional>

namespace panpipe {

class CopySlots {
 public:
  // Start of the first free interval of `length` within [from, until]; nullopt if there is none.
  std::optional<double> first(double length, double from, double until) const;
  // Start of the last one.
  std::optional<double> last(double length, double from, double until) const;
  void take(double start, double length);
  void give_back(double start) { taken_.erase(start); }

 private:
  std::map<double, double> taken_;  // start -> end; intervals do not overlap
};

}  // namespace panpipe
