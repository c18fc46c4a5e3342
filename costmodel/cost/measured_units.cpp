// Units with times that a profile measured.
#include "costmodel/cost/graph_cost.hpp"

namespace panpipe {

// Takes the compute of a measured pass, divided between its collectives as in the formulas; collectives are measured separately.
void GraphCost::take_measured(Duration time, CostSource source, PassCost& pass) {
  PassCost taken;
  taken.breakdown.work = pass.breakdown.work;
  taken.breakdown.traffic = pass.breakdown.traffic;
  taken.breakdown.compute = time;
  taken.breakdown.source = source;
  Duration formula(0);
  bool communicates = false;
  for (const Piece& piece : pass.pieces) {
    if (!piece.collective) formula += piece.time;
    communicates |= piece.collective;
  }
  const bool whole = !communicates || formula <= Duration(0);
  if (whole && time > Duration(0)) taken.pieces.push_back({false, false, time, -1});
  for (Piece piece : pass.pieces) {
    if (piece.collective) {
      if (!piece.hidden_behind_next) taken.breakdown.communication += piece.time;
    } else {
      if (whole || time <= Duration(0)) continue;
      piece.time = time * (piece.time / formula);
    }
    taken.pieces.push_back(piece);
  }
  taken.breakdown.total = time + taken.breakdown.communication;
  pass = std::move(taken);
}

// Measured passes hold what the host did; work and traffic stay as counted.
void GraphCost::use_measured(const ProfiledUnit& measured, CostSource source, UnitCost& unit) {
  const auto take = [&](PassCost& pass, Duration time) { take_measured(time, source, pass); };
  // Where ranks sum an input gradient, the executor computes weight gradients meanwhile.
  unit.backward = unit.input_gradient;
  for (Piece& piece : unit.backward->pieces) piece.hidden_behind_next |= piece.collective;
  for (Piece piece : unit.weight_gradient.pieces) {
    piece.weight = true;
    unit.backward->pieces.push_back(piece);
  }
  unit.backward->breakdown = unit.input_gradient.breakdown + unit.weight_gradient.breakdown;
  take(*unit.backward, measured.backward);
  take(unit.forward, measured.forward);
  take(unit.input_gradient, measured.input_gradient);
  take(unit.weight_gradient, measured.weight_gradient);
  unit.recompute_full = unit.forward;
  unit.temporary = measured.temporary;
  unit.kept_for_weight = measured.kept_for_weight;
}

}  // namespace panpipe
