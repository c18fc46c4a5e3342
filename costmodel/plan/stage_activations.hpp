// The bytes that one microbatch keeps on a stage's device, and the rise of memory while its passes run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

// Sums over a stage's units, in bytes of one microbatch on one device.
struct StageActivations {
  std::int64_t kept = 0;             // kept under the stage's recompute mode
  std::int64_t kept_for_weight = 0;  // needed until the weight gradient, recomputed or not
  std::int64_t forward_peak = 0;     // largest rise over the live bytes at the start of F
  std::int64_t backward_peak = 0;    // largest rise over the live bytes at the start of the backward
  std::int64_t input_peak = 0;       // the same for a separate input gradient, which leaves the inputs of the weight gradients

  // Change of the live bytes over a separate input gradient; negative if it frees memory.
  std::int64_t left_by_input() const { return kept_for_weight - kept; }
  // Largest rise over the live bytes, from the start of a separate input gradient to its end.
  std::int64_t input_rise() const { return std::max(input_peak, left_by_input()); }
};

// The unit before which recompute ends in a stage of units [first, end), when it applies only to so many of its first blocks; 0 =
// all. A partial block at the start of the stage counts as one.
inline int recompute_end(const WorkloadCost& workload, int first, int end, int first_blocks) {
  if (first_blocks == 0) return end;
  int blocks = 0;
  for (int u = first; u < end; ++u) {
    const std::string& block = workload.units[u].block;
    if (block.empty() || (u > first && workload.units[static_cast<std::size_t>(u) - 1].block == block)) continue;
    if (++blocks > first_blocks) return u;
  }
  return end;
}

// The recompute mode of unit `u` in a stage of units [first, end) with mode `mode`.
inline Recompute recompute_of_unit(int u, int recompute_end, Recompute mode) {
  return u < recompute_end ? mode : Recompute::None;
}

// First units of the groups that a backward processes one by one in a stage of units [first, end). A group is a block, or under
// full recompute neighbouring blocks that are recomputed together; a unit outside blocks is its own group. Ascending.
inline std::vector<int> recompute_groups(const WorkloadCost& workload, int first, int end, Recompute mode) {
  const auto block = [&](int u) -> const std::string& { return workload.units[u].block; };
  const int together = mode == Recompute::Full ? workload.recompute_chunk : 1;
  std::vector<int> starts;
  int blocks = 0;  // in the current group; 0: a unit outside blocks
  for (int u = first; u < end; ++u) {
    const bool inside = u > first && !block(u).empty() && block(u - 1) == block(u);
    if (inside) continue;
    const bool joins = u > first && !block(u).empty() && blocks > 0 && blocks < together;
    blocks = block(u).empty() ? 0 : joins ? blocks + 1 : 1;
    if (!joins) starts.push_back(u);
  }
  return starts;
}

// A stage that begins inside a block recomputes its part of it from received tensors. Returns the bytes of the tensors that units
// [first, end) of that block read and units before `first` made, without those that selective recompute counts at these units.
inline Bytes received_inside_block(const WorkloadCost& workload, int first, int end, Recompute mode) {
  const auto block = [&](int u) -> const std::string& { return workload.units[u].block; };
  if (first == 0 || first >= end || block(first).empty() || block(first - 1) != block(first)) return Bytes(0);
  if (!workload.units[first].recomputes) return Bytes(0);
  Bytes sum(0);
  std::vector<int> counted;
  for (int u = first; u < end && mode == Recompute::Selective; ++u) {
    const std::vector<int>& inputs = workload.units[u].selective_inputs;
    counted.insert(counted.end(), inputs.begin(), inputs.end());
  }
  for (const UnitEdge& edge : workload.edges) {
    if (edge.from >= first || edge.to < first || edge.to >= end) continue;
    if (block(edge.from) != block(first) || block(edge.to) != block(first)) continue;
    if (edge.tensor >= 0 && std::find(counted.begin(), counted.end(), edge.tensor) != counted.end()) continue;
    counted.push_back(edge.tensor);
    sum += edge.bytes;
  }
  return sum;
}

// Bytes for a whole microbatch; slices of the sequence supply functions of their own.
struct WholeBytes {
  static std::int64_t even(Bytes whole) { return whole.base(); }
  static std::int64_t saved(const UnitCost& unit) { return unit.saved.base(); }
  static std::int64_t saved_under(const UnitCost& unit, Recompute mode) {
    if (unit.block.empty() || mode == Recompute::None) return saved(unit);
    return (mode == Recompute::Full ? unit.saved_full : unit.saved_selective).base();
  }
  // Of the weights that autocast copies: not counted, since it depends on degrees of a plan.
  static std::int64_t weight_copies(const UnitCost&, Recompute) { return 0; }
};

// Of a whole microbatch's unit, the bytes that stream to the host and back.
inline std::int64_t streamed_bytes(const UnitCost& unit, Recompute mode) {
  if (unit.streams == Streamed::None) return 0;
  const std::int64_t kept = WholeBytes::saved_under(unit, mode);
  return unit.streams == Streamed::All ? kept : std::min(kept, unit.saved_full.base());
}

// Weight copies that a unit keeps under a recompute mode.
inline Bytes weight_copies_under(const UnitCost& unit, Recompute mode) {
  if (unit.block.empty() || mode == Recompute::None || !unit.recomputes) return unit.weight_copies;
  return mode == Recompute::Full ? Bytes(0) : unit.weight_copies_selective;
}

// Bytes of the inputs that full recompute keeps for unit `u` and that its own group did not make.
inline Bytes from_before_group(const WorkloadCost& workload, int u, int group_first) {
  Bytes sum(0);
  for (const UnitEdge& edge : workload.edges)
    if (edge.to == u && edge.from < group_first) sum += edge.bytes;
  return std::min(sum, workload.units[u].saved_full);
}

// A loss makes its last gradient in its backward: in fp32, twice its logits of 2 bytes, or half of what the loss needs.
inline Bytes temporary_of_forward(const UnitCost& unit) {
  return unit.logits > Bytes(0) ? unit.temporary - std::min(unit.logits * 2, Bytes(unit.temporary.base() / 2)) : unit.temporary;
}

// The bytes that each unit of a stage [first, end) keeps, in which units before `until` recompute.
template <class BytesOf>
std::vector<std::int64_t> kept_by_unit(const WorkloadCost& workload, int first, int end, Recompute mode, int until,
                                       const BytesOf& bytes) {
  const UnitCost* const units = workload.units.data();
  const std::vector<int> groups = recompute_groups(workload, first, end, mode);
  std::vector<std::int64_t> kept;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const int group_end = g + 1 < groups.size() ? groups[g + 1] : end;
    for (int u = groups[g]; u < group_end; ++u) {
      const bool behind = mode == Recompute::Full && workload.recompute_chunk > 1 && u < until && !units[u].block.empty() &&
                          units[u].block != units[groups[g]].block;
      kept.push_back(behind ? bytes.even(from_before_group(workload, u, groups[g]))
                            : bytes.saved_under(units[u], recompute_of_unit(u, until, mode)));
    }
  }
  return kept;
}

// What streams between a stage's device and its host: a block's part leaves while the next block runs, and comes back while the
// one behind it does.
class StreamedActivations {
 public:
  template <class BytesOf>
  StreamedActivations(const WorkloadCost& workload, int first, int end, Recompute mode, int until,
                      const std::vector<std::int64_t>& kept, const BytesOf& bytes)
      : first_(first) {
    const UnitCost* const units = workload.units.data();
    for (int u = first; u < end; ++u) {
      if (units[u].streams == Streamed::None) continue;
      leaves_.resize(kept.size());
      const std::int64_t own = kept[u - first] - bytes.weight_copies(units[u], recompute_of_unit(u, until, mode));
      leaves_[u - first] = units[u].streams == Streamed::All ? own : std::min(own, bytes.even(units[u].saved_full));
    }
    std::int64_t of_block = 0;
    for (int u = first; u < end && !leaves_.empty(); ++u) {
      of_block = (u > first && units[u].block == units[u - 1].block ? of_block : 0) + leaves_[u - first];
      largest_ = std::max(largest_, of_block);
    }
  }
  std::int64_t of(int unit) const { return leaves_.empty() ? 0 : leaves_[unit - first_]; }
  // On the device: in a forward, of what ran before; in a backward, of what has yet to run.
  std::int64_t leaving(std::int64_t before) const { return std::min(before, largest_); }
  std::int64_t coming(std::int64_t before) const { return std::min(before, 2 * largest_); }

 private:
  int first_;
  std::vector<std::int64_t> leaves_;  // empty: nothing streams
  std::int64_t largest_ = 0;          // of a block
};

// Sums over units [first, end), of which so many first blocks recompute (0 = all). With `over_before` temporaries count from
// before a unit ran (measured layers), otherwise they come on top of the bytes that it saves.
template <class BytesOf>
StageActivations sum_activations(const WorkloadCost& workload, int first, int end, Recompute mode, int first_blocks,
                                 bool over_before, const BytesOf& bytes) {
  const UnitCost* const units = workload.units.data();
  StageActivations sums;
  const bool across = mode == Recompute::Full || (mode == Recompute::Selective && workload.recompute_spans_block);
  const std::int64_t received = across ? bytes.even(received_inside_block(workload, first, end, mode)) : 0;
  const std::vector<int> groups = recompute_groups(workload, first, end, mode);
  const int until = recompute_end(workload, first, end, first_blocks);
  const std::vector<std::int64_t> kept_of = kept_by_unit(workload, first, end, mode, until, bytes);
  const StreamedActivations streamed(workload, first, end, mode, until, kept_of, bytes);
  const auto kept_under = [&](int u) { return kept_of[u - first]; };
  sums.kept = received;
  // Peaks over the bytes that are live after the stage's last unit: the bytes that a unit adds, less those that later units will
  // keep.
  std::int64_t cached = 0, gone = 0;
  for (int u = first; u < end; ++u) {
    const std::int64_t own = over_before ? 0 : kept_under(u);
    cached += bytes.weight_copies(units[u], Recompute::None) - bytes.weight_copies(units[u], recompute_of_unit(u, until, mode));
    sums.forward_peak = std::max(sums.forward_peak,
                                 sums.kept + streamed.leaving(gone) + own + cached + bytes.even(temporary_of_forward(units[u])));
    sums.kept += kept_under(u) - streamed.of(u);
    gone += streamed.of(u);
    sums.kept_for_weight += bytes.even(units[u].kept_for_weight);
  }
  std::int64_t later = 0, left = 0;  // already freed on the way back; left for weight gradients
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    const int begin = *group;
    std::int64_t temporary = 0, again = 0, kept = 0, weight = 0;
    for (int u = begin; u < end; ++u) {
      temporary = std::max(temporary, bytes.even(units[u].temporary));
      again += bytes.saved(units[u]) - kept_under(u);
      kept += kept_under(u) - streamed.of(u);
      weight += bytes.even(units[u].kept_for_weight);
    }
    again += streamed.coming(gone);
    for (int u = begin; u < end; ++u) gone -= streamed.of(u);
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
