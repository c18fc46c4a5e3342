// Copies between a device and its host. A copy's place in its row decides what it moves; its lane decides when it runs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/walk.hpp"

namespace panpipe {

// True for passes that need tensors which may have been parked.
inline bool uses_parked(ActionKind kind) { return starts_backward(kind) || kind == ActionKind::W || kind == ActionKind::R; }

// Models each rank's copy lane, on which copies run one after another. The constructor scans the schedule once; then call run()
// and ran() in the order of each rank's row. Cheap if the schedule has no copies.
class Parking {
 public:
  Parking(const Schedule& schedule, const Products& products, const PassCosts& costs);
  // Start and end of a copy that its rank reaches at time `now`.
  std::pair<double, double> run(const Action& copy, std::size_t rank, double now);
  void ran(const Action& pass) {
    if (!gradient_.empty() && pass.kind == ActionKind::I) gradient_[place(pass)] = 1;
  }
  bool has_reloaded() const { return !reloaded_.empty(); }
  // The time at which the pass's tensors are back on the device; 0 if they were not parked.
  double back(const Action& pass) const { return reloaded_.empty() || !uses_parked(pass.kind) ? 0 : reloaded_[place(pass)]; }

 private:
  double cost(const Action& copy) const;
  std::size_t place(const Action& a) const { return products_.place(a.stage, a.microbatch, a.split); }

  const Products& products_;
  const PassCosts& costs_;
  std::vector<std::uint8_t> gradient_, recomputed_;  // by place; empty if the schedule has no copies
  std::vector<double> reloaded_;                     // by place; empty until a reload has run
  std::vector<double> free_at_;                      // per rank
};

}  // namespace panpipe
