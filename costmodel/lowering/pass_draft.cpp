// The passes of each stage: the costs of its units in sequence. docs/models/lowering.md has the equations.
#include <algorithm>

#include "base/index.hpp"
#include "costmodel/lowering/pass_draft.hpp"
#include "costmodel/plan/stage_activations.hpp"

namespace panpipe {

namespace {

// The part of the attention core that a pass holds: a recompute holds the forward's, a weight gradient none.
enum class AttentionWork { None, Forward, Backward };

double attention_of(const UnitCost& unit, AttentionWork core) {
  if (core == AttentionWork::None) return 0;
  return (core == AttentionWork::Forward ? unit.attention_forward : unit.attention_backward).base();
}

// A slice of the sequence takes its share of a unit's pass: an even one of everything but the attention core, and each kernel
// once.
double slice_share(const Lowering& lowering, const UnitCost& unit, const PassCost& pass, AttentionWork core, int slice,
                   int moved) {
  const int splits = lowering.plan.schedule.splits;
  if (splits == 1) return 1;
  double whole = 0;
  for (const Piece& piece : pass.pieces)
    if (!piece.collective) whole += piece.time.base();
  if (whole <= 0) return 1;
  const double attention = std::min(attention_of(unit, core), whole);
  const double gaps = std::min(pass.breakdown.launch.base(), whole - attention);
  return ((whole - attention - gaps) / splits + attention * attention_share(lowering, unit, slice, moved) + gaps) / whole;
}

class PassBuilder {
 public:
  PassBuilder(const Lowering& lowering, const StageUnits& info, int slice, ActionKind kind)
      : lowering_(lowering),
        trains_(info.trains),
        first_flow_(lowering.flow_of_collective.at(info.site)),
        slice_(slice),
        kind_(kind),
        units_(info.cost->units.data()),
        moved_(info.moved) {
    draft_.site = info.site;
    if (has_parts(lowering, kind)) parts_ = &info.parts;
  }

  // Appends a pass of a unit. An input gradient's collective hides behind the weight gradient only in a full backward.
  void add(const UnitCost& unit, const PassCost& pass, AttentionWork core, bool may_hide, bool weight = false) {
    bool communicated = false, weighed = false;
    const bool repeats = kind_ != ActionKind::F && core == AttentionWork::Forward;  // a recompute attends to all of its keys
    const bool shares = !repeats && &unit - units_ < moved_.end_unit;
    const double share = slice_share(lowering_, unit, pass, core, slice_, shares ? moved_.slices : 0);
    for (const Piece& piece : pass.pieces) {
      UnitPiece part = piece_of(unit, pass, weight || piece.weight);
      part.collective = piece.collective;
      part.chunk = piece.chunk && !piece.collective;
      if (piece.collective) {
        overlaps_ = part.hidden = may_hide && piece.hidden_behind_next;
        part.flow = first_flow_ + piece.collective_id;
        communicated = true;
        draft_.pieces.push_back(part);
      } else {
        part.tail = communicated && !part.weight;
        if (part.tail && weighed) close();  // it waits for the collective that the weight gradient before it hides
        weighed = piece.weight;
        add_compute(part, piece.time.base() * share);
      }
    }
    draft_.breakdown = draft_.breakdown + pass.breakdown;
    draft_.host += pass.host;
  }
  // Behind a unit's weight gradients: they are added to those of earlier passes.
  void add_accumulation(const UnitCost& unit) {
    const Breakdown cost = accumulation(lowering_.costs, unit, lowering_.plan.schedule.splits, draft_.site);
    add_compute(piece_of(unit, unit.weight_gradient, true), cost.total.base());
    draft_.breakdown = draft_.breakdown + cost;
  }
  // Behind a unit's work: the time that its device waits for copies between it and the host.
  void add_copies(const UnitCost& unit, double waits) {
    if (waits <= 0) return;
    const double time = waits / lowering_.plan.schedule.splits;
    add_compute(piece_of(unit, unit.forward, false), time);
    Breakdown cost;
    cost.communication = cost.total = Duration(time);
    draft_.breakdown = draft_.breakdown + cost;
  }
  // The gradients of a unit are complete. A train of them that is ready ends the compute step, unless the step hides a collective
  // that the next work would then wait for; such a train is ready with the next one.
  void gradients_made(int unit) {
    for (; next_train_ < trains_.size() && trains_[next_train_].unit >= unit; ++next_train_)
      if (!draft_.pieces.empty() && !overlaps_) draft_.pieces.back().train = static_cast<int>(next_train_);
  }
  // A unit is done. After a part's last unit another part begins, which waits for this one's remaining work.
  void unit_done(int unit, bool forwards) {
    const std::size_t done = draft_.part_ends.size();
    if (parts_ == nullptr || done == parts_->size()) return;
    const GatheredPart& part = (*parts_)[forwards ? done : parts_->size() - 1 - done];
    if (unit != (forwards ? part.end_unit - 1 : part.first_unit)) return;
    close();
    draft_.part_ends.push_back(draft_.pieces.size());
    draft_.part_host.push_back(draft_.host - host_before_part_);
    host_before_part_ = draft_.host;
  }
  // The next work may not hide the collective that the previous compute hides.
  void close() {
    if (draft_.pieces.empty() || draft_.pieces.back().collective) return;
    draft_.pieces.back().closed = true;
    overlaps_ = false;
  }
  PassDraft take() { return std::move(draft_); }

 private:
  static UnitPiece piece_of(const UnitCost& unit, const PassCost& pass, bool weight) {
    UnitPiece piece;
    piece.unit = &unit;
    piece.in_block = !unit.block.empty();
    piece.weight = weight;
    piece.synchronous = pass.synchronises;
    return piece;
  }
  void add_compute(UnitPiece piece, double time) {
    if (time == 0) return;
    if (!draft_.pieces.empty() && draft_.pieces.back().synchronous != piece.synchronous) close();
    piece.time = time;
    draft_.pieces.push_back(piece);
  }

  const Lowering& lowering_;
  const std::vector<BucketTrain>& trains_;
  const std::vector<GatheredPart>* parts_ = nullptr;  // of the pass, where it has some
  std::size_t next_train_ = 0;
  std::int32_t first_flow_ = 0;
  int slice_ = 0;
  ActionKind kind_{};
  const UnitCost* units_ = nullptr;  // the workload's
  MovedKeys moved_;
  HostWork host_before_part_;
  bool overlaps_ = false;  // what is added now overlaps a collective
  PassDraft draft_;
};

const PassCost* recompute_cost(const UnitCost& unit, Recompute mode) {
  if (unit.block.empty() || mode == Recompute::None) return nullptr;
  return mode == Recompute::Full ? &unit.recompute_full : &unit.recompute_selective;
}

// What a pass is made of, for the copies behind it.
struct PassContents {
  bool forward = false, input = false, weight = false;
};

Duration work_of(const UnitCost& unit, Recompute mode, PassContents parts) {
  if (parts.forward) return unit.forward.breakdown.total;
  const PassCost* again = parts.input ? recompute_cost(unit, mode) : nullptr;
  const Duration before = again != nullptr ? again->breakdown.total : Duration(0);
  if (parts.input && parts.weight && unit.backward) return before + unit.backward->breakdown.total;
  return before + (parts.input ? unit.input_gradient.breakdown.total : Duration(0)) +
         (parts.weight ? unit.weight_gradient.breakdown.total : Duration(0));
}

// By which the copies of a unit's block outlast the block's work, over its units: a forward sends what is kept away, a backward
// fetches it, and sums of gradients come and go again. Both directions run at once, on all devices of the plan at the same time.
double waits_for_copies(const Lowering& lowering, const StageUnits& info, int u, Recompute mode, PassContents parts) {
  const std::vector<UnitCost>& units = info.cost->units;
  const auto leaves = [&](const UnitCost& unit) { return unit.streams != Streamed::None || unit.streamed_gradients > Bytes(0); };
  if (!leaves(units[at(u)])) return 0;
  const std::string& block = units[at(u)].block;
  std::size_t first = at(u), end = first + 1;
  while (!block.empty() && first > 0 && units[first - 1].block == block) --first;
  while (!block.empty() && end < units.size() && units[end].block == block) ++end;
  double kept = 0, sums = 0, work = 0;
  for (std::size_t v = first; v < end; ++v) {
    kept += static_cast<double>(streamed_bytes(units[v], mode));
    sums += static_cast<double>(units[v].streamed_gradients.base());
    work += work_of(units[v], mode, parts).base();
  }
  sums = parts.weight ? sums / (lowering.zero() >= 2 ? lowering.plan.shard_group() : 1) : 0;
  const double down = sums + (parts.forward ? kept : 0), up = sums + (parts.input ? kept : 0);
  const double time =
      std::max(down / stream_rate(lowering, info.rank, true).base(), up / stream_rate(lowering, info.rank, false).base());
  return std::max(time - work, 0.0) / static_cast<double>(end - first);
}

// A list of operators may leave attention out.
AttentionWork attention_again(const Lowering& lowering, Recompute mode) {
  const auto& listed = lowering.scenario.recompute_scope.operators;
  const bool runs = std::find(listed.begin(), listed.end(), RecomputedKind::Attention) != listed.end();
  return mode == Recompute::Selective && !runs ? AttentionWork::None : AttentionWork::Forward;
}

}  // namespace

double score_share(const Lowering& lowering, const UnitCost& unit, int slice) {
  const double splits = lowering.plan.schedule.splits;
  return unit.causal_attention ? (slice + 1) / (splits * splits) : 1 / splits;
}

double attention_share(const Lowering& lowering, const UnitCost& unit, int slice, int moved) {
  const double splits = lowering.plan.schedule.splits;
  // Fused attention skips masked scores, so the whole costs half of the square, and a slice's own part half of its own square.
  if (unit.causal_attention && is_fused(lowering.scenario.framework.attention))
    return (2 * (slice + moved) + 1) / (splits * splits);
  return score_share(lowering, unit, slice) + moved / (splits * splits);
}

PassDraft draft_pass(const Lowering& lowering, const StageUnits& info, ActionKind kind, int slice) {
  PassBuilder builder(lowering, info, slice, kind);
  const PassContents work{kind == ActionKind::F, starts_backward(kind), kind == ActionKind::B || kind == ActionKind::W};
  const bool forwards = kind == ActionKind::F || kind == ActionKind::R;
  const Recompute mode = forwards ? info.recompute : work.input && !info.recompute_apart ? info.recompute : Recompute::None;
  const int recomputed = recompute_end(*info.cost, info.first_unit, info.end_unit, info.recompute_first);
  const AttentionWork attention = attention_again(lowering, mode);
  const auto again = [&](int u) {
    if (const PassCost* cost = recompute_cost(info.unit(u), recompute_of_unit(u, recomputed, mode)))
      builder.add(info.unit(u), *cost, attention, true);
  };
  const auto run = [&](int u) {
    const UnitCost& unit = info.unit(u);
    if (work.forward) builder.add(unit, unit.forward, AttentionWork::Forward, true);
    if (kind == ActionKind::R) again(u);
    if (work.input && work.weight && unit.backward) {
      builder.add(unit, *unit.backward, AttentionWork::Backward, true);
      builder.add_accumulation(unit);
    } else {
      if (work.input) builder.add(unit, unit.input_gradient, AttentionWork::Backward, work.weight);
      if (work.weight) {
        builder.add(unit, unit.weight_gradient, AttentionWork::None, true, true);
        builder.add_accumulation(unit);
      }
      const auto& pieces = unit.input_gradient.pieces;
      if (work.input && work.weight &&
          std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.hidden_behind_next; }))
        builder.close();
    }
    const Recompute own = recompute_of_unit(u, recomputed, info.recompute);
    if (kind != ActionKind::R) builder.add_copies(unit, waits_for_copies(lowering, info, u, own, work));
    if (work.weight) builder.gradients_made(u);
    builder.unit_done(u, forwards);
  };
  if (forwards)
    for (int u = info.first_unit; u < info.end_unit; ++u) run(u);
  // What the backward makes again together, from the last to the first.
  const std::vector<int> groups =
      forwards ? std::vector<int>{} : recompute_groups(*info.cost, info.first_unit, info.end_unit, mode);
  int end = info.end_unit;
  for (auto first = groups.rbegin(); first != groups.rend(); end = *first++) {
    for (int u = *first; u < end; ++u) again(u);
    for (int u = end - 1; u >= *first; --u) run(u);
  }
  return builder.take();
}

}  // namespace panpipe
