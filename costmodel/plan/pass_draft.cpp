// What each pass of a stage does: the costs of its units put one behind another, host effects and jitter worked in.
// docs/models/lowering.md has the equations.
#include "costmodel/plan/pass_draft.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "costmodel/plan/unit_lanes.hpp"

namespace panpipe {

namespace {

// Time of the steps on idle links as a function of a factor on the scaled compute steps, with its derivative.
struct Slope {
  double value = 0, derivative = 0;
};
Slope later(Slope a, Slope b) { return a.value < b.value ? b : a; }

template <class Steps, class TimeOf>
Slope idle_duration(const Steps& steps, TimeOf time_of, bool await_last = true) {
  Slope now, communicated;
  bool pending = false, covered = false;
  for (const auto& step : steps) {
    const Slope time = time_of(step);
    if (step.collective) {
      const Slope begin = later(now, communicated);
      communicated = {begin.value + time.value, begin.derivative + time.derivative};
      pending = step.overlapped;
      covered = false;
      if (!step.overlapped) now = communicated;
      continue;
    }
    if (pending && covered) {
      now = later(now, communicated);
      pending = false;
    }
    covered = true;
    now = {now.value + time.value, now.derivative + time.derivative};
  }
  return await_last ? later(now, communicated) : now;
}

Slope duration_at(const PassDraft& draft, double factor, bool also_synchronous) {
  const auto time_of = [&](const Draft& step) {
    if (step.collective || (step.synchronous && !also_synchronous)) return Slope{step.time, 0};
    return Slope{step.time * factor, step.time};
  };
  if (!draft.runs_on) return idle_duration(draft.steps, time_of);
  std::size_t count = draft.steps.size();
  while (count > 0 && draft.steps[count - 1].collective) --count;
  return idle_duration(std::span(draft.steps).first(count), time_of, false);
}

// Scales the compute steps so that the pass takes `target` on idle links. Newton's method: the duration is convex and
// piecewise linear in the factor, so it ends after a few rounds.
void stretch(PassDraft& draft, double target, bool also_synchronous) {
  std::vector<Draft>& steps = draft.steps;
  double factor = 1;
  Slope at = duration_at(draft, factor, also_synchronous);
  constexpr double kTolerance = 1e-13;  // far below the picosecond that times are rounded to
  for (int round = 0; round < 50 && std::abs(target - at.value) > kTolerance * target; ++round) {
    const double slope = at.derivative > 0 ? at.derivative : duration_at(draft, factor * 2, also_synchronous).derivative;
    if (slope <= 0) break;
    factor = std::max(0.0, factor + (target - at.value) / slope);
    at = duration_at(draft, factor, also_synchronous);
  }
  for (Draft& step : steps)
    if (!step.collective && (also_synchronous || !step.synchronous)) step.time *= factor;
  for (UnitPiece& piece : draft.pieces)
    if (!piece.collective && (also_synchronous || !piece.synchronous)) piece.time *= factor;
  if (target - at.value > kTolerance * target) {  // nothing to scale: the host's time stands in front
    Draft host;
    host.time = target - at.value;
    steps.insert(steps.begin(), host);
    UnitPiece piece;
    piece.time = host.time;
    draft.pieces.insert(draft.pieces.begin(), piece);
  }
}

// The part of the attention core that a pass holds: a recompute holds the forward's, a weight gradient none.
enum class AttentionWork { None, Forward, Backward };

double attention_of(const UnitCost& unit, AttentionWork core) {
  if (core == AttentionWork::None) return 0;
  return (core == AttentionWork::Forward ? unit.attention_forward : unit.attention_backward).base();
}

// A slice of the sequence takes its share of a unit's pass: an even one of everything but the attention core, and each kernel
// once.
double slice_share(const Lowering& lowering, const UnitCost& unit, const PassCost& pass, AttentionWork core, int slice) {
  const int splits = lowering.plan.schedule.splits;
  if (splits == 1) return 1;
  double whole = 0;
  for (const Piece& piece : pass.pieces)
    if (!piece.collective) whole += piece.time.base();
  if (whole <= 0) return 1;
  const double attention = std::min(attention_of(unit, core), whole);
  const double gaps = std::min(pass.breakdown.launch.base(), whole - attention);
  return ((whole - attention - gaps) / splits + attention * attention_share(lowering, unit, slice) + gaps) / whole;
}

class PassBuilder {
 public:
  PassBuilder(const Lowering& lowering, const StageInfo& info, int slice)
      : lowering_(lowering), trains_(info.trains), site_(info.site), slice_(slice) {
    first_flow_ = lowering.flow_of_collective.at(site_);
  }

  // Appends a pass of a unit. An input gradient's collective hides behind the weight gradient only in a full backward.
  void add(const UnitCost& unit, const PassCost& pass, AttentionWork core, bool may_hide, bool weight = false) {
    bool communicated = false, weighed = false;
    const double share = slice_share(lowering_, unit, pass, core, slice_);
    for (const Piece& piece : pass.pieces) {
      UnitPiece part;
      part.unit = &unit;
      part.in_block = !unit.block.empty();
      part.weight = weight || piece.weight;
      part.synchronous = pass.synchronises;
      part.collective = piece.collective;
      if (piece.collective) {
        part.hidden = may_hide && piece.hidden_behind_next;
        part.flow = add_collective(piece, part.hidden);
        communicated = true;
      } else {
        part.tail = communicated && !part.weight;
        if (part.tail && weighed) close();  // it waits for the collective that the weight gradient before it hides
        weighed = piece.weight;
        part.time = piece.time.base() * share;
        add_compute(part.time, pass.synchronises);
      }
      if (piece.collective || part.time != 0) draft_.pieces.push_back(part);
    }
    draft_.breakdown = draft_.breakdown + pass.breakdown;
    draft_.launches += pass.launches;
  }
  // The gradients of a unit are whole. A train of them that is ready ends the compute step, unless the step hides a collective
  // that what follows would then have to wait for: such a train is ready with the next one.
  void gradients_made(int unit) {
    for (; next_train_ < trains_.size() && trains_[next_train_].unit >= unit; ++next_train_) {
      if (draft_.steps.empty() || draft_.pieces.empty()) continue;
      Draft& last = draft_.steps.back();
      const bool hides = !last.collective && !last.closed && draft_.steps.size() > 1 && draft_.steps.end()[-2].overlapped;
      if (hides || last.overlapped) continue;
      last.closed = true;
      last.train = draft_.pieces.back().train = static_cast<int>(next_train_);
    }
  }
  // What follows starts a compute step of its own: it may not hide the collective that the step before hides.
  void close() {
    if (!draft_.steps.empty()) draft_.steps.back().closed = true;
  }
  PassDraft take() {
    add_overlap_slowdown();
    draft_.runs_on = lowering_.graph.collectives_run_on;
    if (lowering_.graph.by_units) draft_.bare = draft_.pieces;
    return std::move(draft_);
  }

 private:
  // Concurrent communication slows compute: each overlapped collective adds to the step it hides behind, for as long as both
  // run.
  void add_overlap_slowdown() {
    auto& steps = draft_.steps;
    for (std::size_t k = 0; k + 1 < steps.size(); ++k) {
      if (!steps[k].overlapped || steps[k + 1].collective) continue;
      const double alone = steps[k + 1].time;
      steps[k + 1].time = time_beside(alone, steps[k].time, overlap_loss(lowering_.costs, site_));
      draft_.breakdown.compute += Duration(steps[k + 1].time - alone);
    }
  }

  void add_compute(double time, bool synchronous) {
    if (time == 0) return;
    if (!draft_.steps.empty()) {
      Draft& last = draft_.steps.back();
      if (!last.collective && !last.closed && last.synchronous == synchronous) {
        last.time += time;
        return;
      }
    }
    Draft step;
    step.time = time;
    step.synchronous = synchronous;
    draft_.steps.push_back(step);
  }

  std::int32_t add_collective(const Piece& piece, bool hidden) {
    Draft step;
    step.collective = true;
    step.overlapped = hidden;
    step.flow = first_flow_ + piece.collective_id;
    const CollectiveFlow& flow = lowering_.graph.flows[static_cast<std::size_t>(step.flow)];
    step.time = to_duration(flow.latency + flow.transfer).base();
    draft_.steps.push_back(step);
    return step.flow;
  }

  const Lowering& lowering_;
  const std::vector<BucketTrain>& trains_;
  std::size_t next_train_ = 0;
  int site_ = 0;
  std::int32_t first_flow_ = 0;
  int slice_ = 0;
  PassDraft draft_;
};

const PassCost* recompute_cost(const UnitCost& unit, Recompute mode) {
  if (unit.block.empty() || mode == Recompute::None) return nullptr;
  return mode == Recompute::Full ? &unit.recompute_full : &unit.recompute_selective;
}

// Calls visit(first, end) for the stage's blocks from the last to the first; a unit without block is one by itself.
template <class Visit>
void blocks_backwards(const Lowering& lowering, const StageInfo& info, Visit visit) {
  int end = info.end_unit;
  while (end > info.first_unit) {
    const std::string& block = lowering.unit(info, end - 1).block;
    int first = end - 1;
    while (!block.empty() && first > info.first_unit && lowering.unit(info, first - 1).block == block) --first;
    visit(first, end);
    end = first;
  }
}

}  // namespace

double score_share(const Lowering& lowering, const UnitCost& unit, int slice) {
  const double splits = lowering.plan.schedule.splits;
  return unit.causal_attention ? (slice + 1) / (splits * splits) : 1 / splits;
}

double attention_share(const Lowering& lowering, const UnitCost& unit, int slice) {
  const double splits = lowering.plan.schedule.splits;
  // Fused attention skips what the mask hides, so that the whole costs half of the square and a slice's own part half of its own.
  if (unit.causal_attention && lowering.scenario.framework.flash_attention) return (2 * slice + 1) / (splits * splits);
  return score_share(lowering, unit, slice);
}

PassDraft draft_forward(const Lowering& lowering, const StageInfo& info, int slice) {
  PassBuilder builder(lowering, info, slice);
  for (int u = info.first_unit; u < info.end_unit; ++u)
    builder.add(lowering.unit(info, u), lowering.unit(info, u).forward, AttentionWork::Forward, true);
  return builder.take();
}

PassDraft draft_weight(const Lowering& lowering, const StageInfo& info, int slice) {
  PassBuilder builder(lowering, info, slice);
  for (int u = info.end_unit - 1; u >= info.first_unit; --u) {
    builder.add(lowering.unit(info, u), lowering.unit(info, u).weight_gradient, AttentionWork::None, true, true);
    builder.gradients_made(u);
  }
  return builder.take();
}

PassDraft draft_recompute(const Lowering& lowering, const StageInfo& info, Recompute mode, int slice) {
  PassBuilder builder(lowering, info, slice);
  for (int u = info.first_unit; u < info.end_unit; ++u)
    if (const PassCost* again = recompute_cost(lowering.unit(info, u), mode))
      builder.add(lowering.unit(info, u), *again, AttentionWork::Forward, true);
  return builder.take();
}

PassDraft draft_backward(const Lowering& lowering, const StageInfo& info, bool with_weight, int slice) {
  PassBuilder builder(lowering, info, slice);
  const Recompute mode = info.recompute_apart ? Recompute::None : info.recompute;
  blocks_backwards(lowering, info, [&](int first, int end) {
    for (int u = first; u < end; ++u)
      if (const PassCost* again = recompute_cost(lowering.unit(info, u), mode))
        builder.add(lowering.unit(info, u), *again, AttentionWork::Forward, true);
    for (int u = end - 1; u >= first; --u) {
      const UnitCost& unit = lowering.unit(info, u);
      if (with_weight && unit.backward) {
        builder.add(unit, *unit.backward, AttentionWork::Backward, true);
        builder.gradients_made(u);
        continue;
      }
      builder.add(unit, unit.input_gradient, AttentionWork::Backward, with_weight);
      if (!with_weight) continue;
      builder.add(unit, unit.weight_gradient, AttentionWork::None, true, true);
      const auto& pieces = unit.input_gradient.pieces;
      if (std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.hidden_behind_next; })) builder.close();
      builder.gradients_made(u);
    }
  });
  return builder.take();
}

double device_time(const PassDraft& draft, bool synchronous_part) {
  double synchronous = 0;
  for (const Draft& step : draft.steps)
    if (step.synchronous) synchronous += step.time;
  return synchronous_part ? synchronous : duration_at(draft, 1, true).value - synchronous;
}

void apply_host_and_jitter(const Lowering& lowering, PassDraft& draft, double factor) {
  const double synchronous = device_time(draft, true), device = device_time(draft, false);
  if (factor != 1) stretch(draft, device * factor + synchronous, false);
  draft.breakdown.launch += Duration(device * (factor - 1));
  const double jitter = lowering.costs.stage_jitter(lowering.plan.pipeline);
  if (jitter != 1) {
    stretch(draft, (device * factor + synchronous) * jitter, true);
    draft.breakdown.compute = draft.breakdown.compute * jitter;
    draft.breakdown.memory = draft.breakdown.memory * jitter;
    draft.breakdown.launch = draft.breakdown.launch * jitter;
  }
}

std::vector<std::int32_t> steps_of_trains(const std::vector<std::pair<int, std::int32_t>>& found, std::size_t trains,
                                          std::int32_t steps) {
  std::vector<std::int32_t> result(trains, -1);
  for (const auto& [train, before] : found)
    if (before < steps) result[static_cast<std::size_t>(train)] = before;
  // One that the pass could not stop for is ready with the next one.
  for (std::size_t k = trains; k-- > 1;)
    if (result[k - 1] < 0) result[k - 1] = result[k];
  return result;
}

Ticks idle_duration(const ProgramStep* first, const ProgramStep* last) {
  const std::vector<ProgramStep> steps(first, last);
  return Ticks(idle_duration(steps, [](const ProgramStep& step) { return Slope{step.time.base(), 0}; }).value);
}

}  // namespace panpipe
