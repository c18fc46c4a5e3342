// What one microbatch keeps on the device of a stage, and how far memory rises while its passes run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

// Sums over a stage's units, in bytes of one microbatch on one device.
struct StageActivations {
  std::int64_t saved = 0;            // kept without recompute
  std::int64_t kept = 0;             // kept under the stage's recompute mode
  std::int64_t kept_for_weight = 0;  // of it (recomputed or not), until the weight gradient
  std::int64_t forward_peak = 0;     // largest rise over the live bytes at the start of F
  std::int64_t backward_peak = 0;    // largest rise over the live bytes at the start of the backward
  std::int64_t input_peak = 0;       // the same of an input gradient apart, which leaves behind what the weight gradients read

  // What an input gradient apart adds to the live bytes when it has ended; below 0 it frees.
  std::int64_t left_by_input() const { return kept_for_weight - kept; }
  // How far memory rises over the live bytes, from the start of an input gradient apart to its end.
  std::int64_t input_rise() const { return std::max(input_peak, left_by_input()); }
};

// A stage that begins inside a block makes its part of it again from what it receives: bytes of the tensors that units [first,
// end) of that block read and units before `first` made.
inline Bytes received_inside_block(const WorkloadCost& workload, int first, int end) {
  const auto block = [&](int u) -> const std::string& { return workload.units[static_cast<std::size_t>(u)].block; };
  if (first == 0 || first >= end || block(first).empty() || block(first - 1) != block(first)) return Bytes(0);
  if (!workload.units[static_cast<std::size_t>(first)].recomputes) return Bytes(0);
  Bytes sum(0);
  std::vector<int> counted;
  for (const UnitEdge& edge : workload.edges) {
    if (edge.from >= first || edge.to < first || edge.to >= end) continue;
    if (block(edge.from) != block(first) || block(edge.to) != block(first)) continue;
    if (edge.tensor >= 0 && std::find(counted.begin(), counted.end(), edge.tensor) != counted.end()) continue;
    counted.push_back(edge.tensor);
    sum += edge.bytes;
  }
  return sum;
}

// What a whole microbatch saves; a slice of the sequence brings functions of its own.
struct WholeBytes {
  static std::int64_t even(Bytes whole) { return whole.base(); }
  static std::int64_t saved(const UnitCost& unit) { return unit.saved.base(); }
  static std::int64_t saved_under(const UnitCost& unit, Recompute mode) {
    if (unit.block.empty() || mode == Recompute::None) return saved(unit);
    return (mode == Recompute::Full ? unit.saved_full : unit.saved_selective).base();
  }
};

// Of units [first, end). `over_before`: temporaries count from before a unit ran (measured layers), not from beside what it
// saves.
template <class BytesOf>
StageActivations sum_activations(const WorkloadCost& workload, int first, int end, Recompute mode, bool over_before,
                                 const BytesOf& bytes) {
  const UnitCost* const units = workload.units.data();
  StageActivations sums;
  const bool across = mode == Recompute::Full || (mode == Recompute::Selective && workload.recompute_spans_block);
  const std::int64_t received = across ? bytes.even(received_inside_block(workload, first, end)) : 0;
  sums.kept = received;
  // Peaks over the bytes that are live when the stage's last unit has run: what a unit adds, less what later units will keep.
  for (int u = first; u < end; ++u) {
    const std::int64_t own = over_before ? 0 : bytes.saved_under(units[u], mode);
    sums.forward_peak = std::max(sums.forward_peak, sums.kept + own + bytes.even(units[u].temporary));
    sums.saved += bytes.saved(units[u]);
    sums.kept += bytes.saved_under(units[u], mode);
    sums.kept_for_weight += bytes.even(units[u].kept_for_weight);
  }
  std::int64_t later = 0, left = 0;  // already freed on the way back; left there for weight gradients
  while (end > first) {
    const std::string& block = units[end - 1].block;
    int begin = end - 1;
    while (!block.empty() && begin > first && units[begin - 1].block == block) --begin;
    std::int64_t temporary = 0, again = 0, kept = 0, weight = 0;
    for (int u = begin; u < end; ++u) {
      temporary = std::max(temporary, bytes.even(units[u].temporary));
      again += bytes.saved(units[u]) - bytes.saved_under(units[u], mode);
      kept += bytes.saved_under(units[u], mode);
      weight += bytes.even(units[u].kept_for_weight);
    }
    if (begin == first) {
      again -= received;
      kept += received;
    }
    sums.backward_peak = std::max(sums.backward_peak, temporary + again - later);
    sums.input_peak = std::max(sums.input_peak, temporary + again - later + left);
    later += kept;
    left += weight;
    end = begin;
  }
  return sums;
}

}  // namespace panpipe
