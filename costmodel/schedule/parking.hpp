// What a copy between a device and its host moves: that follows from where it stands in its row.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/schedule/schedule.hpp"
#include "costmodel/schedule/walk.hpp"

namespace panpipe {

enum class Parked : std::uint8_t {
  Activation,  // between F and its backward: all that F kept
  Inputs,      // the same where the stage is recomputed: its inputs, which count and cost nothing with plain costs
  Waiting,     // between I and W: what the weight gradient reads
};

// Looks at a schedule once; then ran() and of() are called in the order of each rank's row. Cheap where nothing is copied.
class Parking {
 public:
  Parking(const Schedule& schedule, const Products& products);
  void ran(const Action& pass) {
    if (!gradient_.empty() && pass.kind == ActionKind::I) gradient_[place(pass)] = 1;
  }
  Parked of(const Action& copy) const {
    if (gradient_[place(copy)]) return Parked::Waiting;
    return recomputed_[place(copy)] ? Parked::Inputs : Parked::Activation;
  }
  double cost(const Action& copy, const PassCosts& costs) const;

 private:
  std::size_t place(const Action& a) const { return products_.place(a.stage, a.microbatch, a.split); }

  const Products& products_;
  std::vector<std::uint8_t> gradient_, recomputed_;  // by place; empty where nothing is copied
};

inline bool is_copy(ActionKind kind) { return kind == ActionKind::Offload || kind == ActionKind::Reload; }
// Passes that need on the device what may have been parked.
inline bool uses_parked(ActionKind kind) {
  return kind == ActionKind::B || kind == ActionKind::I || kind == ActionKind::W || kind == ActionKind::R;
}

}  // namespace panpipe
