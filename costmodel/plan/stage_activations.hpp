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

// The unit before which the blocks of a stage of units [first, end) end that recompute does anything in. The part of a block
// with which a stage begins counts as one. Of so many `stages` behind one another: as many blocks more, wherever they stand.
inline int recompute_end(const WorkloadCost& workload, int first, int end, int stages = 1) {
  if (workload.recompute_first == 0) return end;
  int blocks = 0;
  for (int u = first; u < end; ++u) {
    const std::string& block = workload.units[static_cast<std::size_t>(u)].block;
    if (block.empty() || (u > first && workload.units[static_cast<std::size_t>(u) - 1].block == block)) continue;
    if (++blocks > workload.recompute_first * stages) return u;
  }
  return end;
}

// How a stage of units [first, end) makes unit `u` again, whose own mode is `mode`.
inline Recompute recompute_of_unit(int u, int recompute_end, Recompute mode) {
  return u < recompute_end ? mode : Recompute::None;
}

// Where the groups of a stage's units [first, end) begin that a backward goes through one by one: blocks, or under full recompute
// the neighbouring blocks that are made again together; a unit without block is one by itself. Ascending.
inline std::vector<int> recompute_groups(const WorkloadCost& workload, int first, int end, Recompute mode) {
  const auto block = [&](int u) -> const std::string& { return workload.units[static_cast<std::size_t>(u)].block; };
  const int together = mode == Recompute::Full ? workload.recompute_chunk : 1;
  std::vector<int> starts;
  int blocks = 0;  // of the group at hand; 0: a unit without block
  for (int u = first; u < end; ++u) {
    const bool inside = u > first && !block(u).empty() && block(u - 1) == block(u);
    if (inside) continue;
    const bool joins = u > first && !block(u).empty() && blocks > 0 && blocks < together;
    blocks = block(u).empty() ? 0 : joins ? blocks + 1 : 1;
    if (!joins) starts.push_back(u);
  }
  return starts;
}

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

// Of the inputs that full recompute keeps of unit `u`, those that its group did not make itself.
inline Bytes from_before_group(const WorkloadCost& workload, int u, int group_first) {
  Bytes sum(0);
  for (const UnitEdge& edge : workload.edges)
    if (edge.to == u && edge.from < group_first) sum += edge.bytes;
  return std::min(sum, workload.units[static_cast<std::size_t>(u)].saved_full);
}

// Of units [first, end). `over_before`: temporaries count from before a unit ran (measured layers), not from beside what it
// saves.
template <class BytesOf>
StageActivations sum_activations(const WorkloadCost& workload, int first, int end, Recompute mode, bool over_before,
                                 const BytesOf& bytes) {
  const UnitCost* const units = workload.units.data();
  StageActivations sums;
  const bool across = mode == Recompute::Full || (mode == Recompute::Selective && workload.recompute_spans_block);
  const std::int64_t received = across ? bytes.even(received_inside_block(workload, first, end)) : 0;
  const std::vector<int> groups = recompute_groups(workload, first, end, mode);
  const int until = recompute_end(workload, first, end);
  std::vector<std::int64_t> kept_of;  // by unit of the stage
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const int group_end = g + 1 < groups.size() ? groups[g + 1] : end;
    for (int u = groups[g]; u < group_end; ++u) {
      const bool behind = mode == Recompute::Full && workload.recompute_chunk > 1 && u < until && !units[u].block.empty() &&
                          units[u].block != units[groups[g]].block;
      kept_of.push_back(behind ? bytes.even(from_before_group(workload, u, groups[g]))
                               : bytes.saved_under(units[u], recompute_of_unit(u, until, mode)));
    }
  }
  const auto kept_under = [&](int u) { return kept_of[static_cast<std::size_t>(u - first)]; };
  sums.kept = received;
  // Peaks over the bytes that are live when the stage's last unit has run: what a unit adds, less what later units will keep.
  for (int u = first; u < end; ++u) {
    const std::int64_t own = over_before ? 0 : kept_under(u);
    sums.forward_peak = std::max(sums.forward_peak, sums.kept + own + bytes.even(units[u].temporary));
    sums.saved += bytes.saved(units[u]);
    sums.kept += kept_under(u);
    sums.kept_for_weight += bytes.even(units[u].kept_for_weight);
  }
  std::int64_t later = 0, left = 0;  // already freed on the way back; left there for weight gradients
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    const int begin = *group;
    std::int64_t temporary = 0, again = 0, kept = 0, weight = 0;
    for (int u = begin; u < end; ++u) {
      temporary = std::max(temporary, bytes.even(units[u].temporary));
      again += bytes.saved(units[u]) - kept_under(u);
      kept += kept_under(u);
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
