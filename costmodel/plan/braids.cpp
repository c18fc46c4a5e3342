// Passes as units on two lanes: the steps of a lone pass, and of a group whose members are woven so that a collective of one
// runs under compute of another. docs/models/braids.md.
#include <algorithm>
#include <cmath>

#include "costmodel/plan/pass_draft.hpp"
#include "costmodel/plan/unit_lanes.hpp"

namespace panpipe {

namespace {

using Pieces = std::vector<UnitPiece>;

// A run of pieces of one member that stays together: what the unit before still had to compute behind its collective, compute
// that something may wait for, its collective, and the weight gradients among and behind it. Weight gradients with nothing before
// them are groups of their own.
struct Portion {
  std::size_t first = 0, end = 0;
};

std::vector<Portion> portions_of(const Pieces& pieces) {
  std::vector<Portion> portions;
  bool has_chained = false, has_collective = false, only_tail = false;  // of the current portion
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const UnitPiece& piece = pieces[i];
    const bool goes_on = !piece.weight && has_chained && !has_collective && !piece.tail &&
                         (only_tail ? pieces[i - 1].in_block == piece.in_block : pieces[i - 1].unit == piece.unit);
    const bool joins = piece.collective || (piece.weight && has_chained) || goes_on;
    if (portions.empty() || !joins) {
      portions.push_back({i, i});
      has_chained = has_collective = false;
      only_tail = true;
    }
    portions.back().end = i + 1;
    has_chained = has_chained || !piece.weight;
    has_collective = has_collective || piece.collective;
    only_tail = only_tail && piece.tail;
  }
  return portions;
}

bool in_block(const Pieces& pieces, const Portion& portion) {
  return std::any_of(pieces.begin() + static_cast<std::ptrdiff_t>(portion.first),
                     pieces.begin() + static_cast<std::ptrdiff_t>(portion.end), [](const UnitPiece& p) { return p.in_block; });
}

bool all_tail(const Pieces& pieces, const Portion& portion) {
  return std::all_of(pieces.begin() + static_cast<std::ptrdiff_t>(portion.first),
                     pieces.begin() + static_cast<std::ptrdiff_t>(portion.end), [](const UnitPiece& p) { return p.tail; });
}

// One member's portions: what stands before its first layer, its layers, what stands behind them.
struct Strand {
  const Pieces* pieces = nullptr;
  std::vector<Portion> portions;
  std::size_t first = 0, end = 0;  // of the layers
  std::size_t next = 0;
};

Strand strand_of(const Pieces& pieces) {
  Strand strand;
  strand.pieces = &pieces;
  strand.portions = portions_of(pieces);
  const std::size_t count = strand.portions.size();
  strand.end = count;
  while (strand.first < count && !in_block(pieces, strand.portions[strand.first])) ++strand.first;
  if (strand.first == count) {  // no layers: all of it is woven
    strand.first = 0;
    return strand;
  }
  while (!in_block(pieces, strand.portions[strand.end - 1])) --strand.end;
  // What the last unit computes behind its collective is no portion to weave: its collective would not be hidden yet.
  const Portion& last = strand.portions[strand.end - 1];
  if (strand.end - strand.first > 1 && all_tail(pieces, last)) --strand.end;
  return strand;
}

class Weaver {
 public:
  explicit Weaver(const TaskGraph& graph) : graph_(graph) {}

  WovenProgram weave(const std::vector<const Pieces*>& members, bool atomic) {
    result_.ends.resize(members.size());
    std::vector<Strand> strands;
    for (const Pieces* pieces : members) strands.push_back(strand_of(*pieces));
    alone_ = atomic || members.size() == 1;
    if (alone_) {
      for (std::size_t m = 0; m < strands.size(); ++m) take(strands[m], m, strands[m].portions.size());
      return std::move(result_);
    }
    // The head's gradients lead, the head's forward trails; between them whoever has done the smallest share of its layers goes
    // next, the first member at a tie.
    for (std::size_t m = 0; m < strands.size(); ++m) take(strands[m], m, strands[m].first);
    for (;;) {
      std::size_t best = strands.size();
      for (std::size_t m = 0; m < strands.size(); ++m)
        if (strands[m].next < strands[m].end && (best == strands.size() || share(strands[m]) < share(strands[best]))) best = m;
      if (best == strands.size()) break;
      take(strands[best], best, strands[best].next + 1);
    }
    for (std::size_t m = 0; m < strands.size(); ++m) take(strands[m], m, strands[m].portions.size());
    return std::move(result_);
  }

 private:
  static double share(const Strand& strand) {
    return static_cast<double>(strand.next - strand.first) / static_cast<double>(strand.end - strand.first);
  }

  void take(Strand& strand, std::size_t member, std::size_t up_to) {
    for (; strand.next < up_to; ++strand.next)
      for (std::size_t i = strand.portions[strand.next].first; i < strand.portions[strand.next].end; ++i)
        add((*strand.pieces)[i], member);
  }

  void add(const UnitPiece& piece, std::size_t member) {
    MemberEnds& ends = result_.ends[member];
    ProgramStep step;
    step.member = static_cast<std::uint8_t>(member);
    step.collective = piece.collective;
    step.flow = piece.flow;
    if (piece.collective) {
      const CollectiveFlow& flow = graph_.flows[static_cast<std::size_t>(piece.flow)];
      step.time = flow.latency + flow.transfer;
      step.overlapped = piece.hidden;
      hidden_ = piece.hidden;
      merges_ = false;
    } else {
      step.free = piece.weight && (!alone_ || hidden_);
      if (!piece.weight) hidden_ = false;
      if (merges_ && weight_ == piece.weight && member_ == member && alone_) {
        time_ += piece.time;  // rounded once
        result_.steps.back().time = to_ticks(Duration(time_));
        return note_train(piece);
      }
      time_ = piece.time;
      step.time = to_ticks(Duration(time_));
      merges_ = true;
      weight_ = piece.weight;
      member_ = member;
    }
    result_.steps.push_back(step);
    result_.pieces.push_back(piece);
    ends.all = static_cast<std::int32_t>(result_.steps.size());
    if (!piece.weight) ends.gradient = ends.all;
    note_train(piece);
  }

  void note_train(const UnitPiece& piece) {
    if (piece.train < 0 || !alone_ || hidden_) return;
    result_.trains.emplace_back(piece.train, static_cast<std::int32_t>(result_.steps.size()));
    merges_ = false;
  }

  const TaskGraph& graph_;
  WovenProgram result_;
  bool alone_ = false;   // not woven: adjacent compute is one step
  bool hidden_ = false;  // the last collective lets the weight gradient behind it run
  bool merges_ = false, weight_ = false;
  std::size_t member_ = 0;
  double time_ = 0;
};

}  // namespace

WovenProgram weave(const TaskGraph& graph, const std::vector<const std::vector<UnitPiece>*>& members, bool atomic) {
  return Weaver(graph).weave(members, atomic);
}

namespace {

Duration compute_of(const Pieces& pieces) {
  Duration sum(0);
  for (const UnitPiece& piece : pieces)
    if (!piece.collective) sum += Duration(piece.time);
  return sum;
}

}  // namespace

std::int32_t group_program(Lowering& lowering, const std::vector<std::int32_t>& members) {
  const auto [known, is_new] = lowering.group_programs.try_emplace(members, -1);
  if (!is_new) return known->second;
  TaskGraph& graph = lowering.graph;
  const bool atomic = lowering.scenario.schedule.braid == Braid::Atomic;
  std::vector<const Pieces*> pieces;
  Breakdown sum;
  int launches = 0, site = 0;
  for (const std::int32_t m : members) {
    const UnitPass& pass = lowering.unit_passes[static_cast<std::size_t>(m)];
    pieces.push_back(atomic ? &pass.alone : &pass.bare);
    launches += pass.launches;
    site = pass.site;
    sum = sum + graph.programs[static_cast<std::size_t>(m)].breakdown;
    if (!atomic) sum.launch -= compute_of(pass.alone) - compute_of(pass.bare);
  }
  const WovenProgram woven = weave(graph, pieces, atomic);
  known->second = add_unit_program(lowering, woven, static_cast<int>(members.size()), atomic, sum);
  if (!atomic) apply_host_and_jitter(lowering, woven, launches, site);
  return known->second;
}

namespace {

// Finds how its steps end, alone on idle links. Returns how long it holds the compute lane.
double run_alone(const TaskGraph& graph, Program& program) {
  UnitLanes lanes;
  std::vector<MemberRun> runs(program.members);
  program.duration = Ticks(run_cell(graph, program, lanes, runs.data(), [](std::int32_t, double, double) {}));
  double busy = 0;
  for (const MemberRun& run : runs) busy += run.busy;
  program.exposed_communication = Ticks(program.duration.base() - busy);
  program.breakdown.communication = to_duration(program.exposed_communication);
  program.breakdown.total = to_duration(program.duration);
  return lanes.compute;
}

// A factor from 1 on with which `ticks_of`, which grows, reaches the target as nearly as rounded steps allow: regula falsi
// (Illinois).
template <class TicksOf>
double factor_reaching(double target, double tolerance, TicksOf ticks_of) {
  double low = 1, high = 1, at_low = ticks_of(low) - target, at_high = at_low;
  for (int doublings = 0; at_high < -tolerance; ++doublings) {
    if (doublings == 60) return 1;  // nothing to stretch
    low = high, at_low = at_high;
    high *= 2;
    at_high = ticks_of(high) - target;
  }
  int side = 0;  // whose end moved last
  for (int round = 0; round < 100 && at_high > tolerance; ++round) {
    const double next = (low * at_high - high * at_low) / (at_high - at_low), at_next = ticks_of(next) - target;
    if (std::abs(at_next) <= tolerance) return next;
    if (at_next > 0) {
      high = next, at_high = at_next;
      if (side > 0) at_low /= 2;
      side = 1;
    } else {
      low = next, at_low = at_next;
      if (side < 0) at_high /= 2;
      side = -1;
    }
  }
  return high;
}

}  // namespace

std::int32_t add_unit_program(Lowering& lowering, const WovenProgram& woven, int members, bool atomic, const Breakdown& sum) {
  TaskGraph& graph = lowering.graph;
  Program program;
  program.first_step = static_cast<std::int32_t>(graph.steps.size());
  program.steps = static_cast<std::int32_t>(woven.steps.size());
  program.members = static_cast<std::uint8_t>(members);
  program.atomic = atomic;
  program.all_inputs = atomic || lowering.scenario.transfers.braid_inputs == TransferRules::BraidInputs::Together;
  program.breakdown = sum;
  graph.steps.insert(graph.steps.end(), woven.steps.begin(), woven.steps.end());
  run_alone(graph, program);
  graph.programs.push_back(program);
  lowering.unit_passes.resize(graph.programs.size());
  lowering.member_ends.resize(graph.programs.size());
  lowering.member_ends.back() = woven.ends;
  return static_cast<std::int32_t>(graph.programs.size()) - 1;
}

void apply_host_and_jitter(Lowering& lowering, const WovenProgram& woven, int launches, int site) {
  TaskGraph& graph = lowering.graph;
  Program& program = graph.programs.back();
  double given = 0, synchronous = 0, compute = 0;
  for (const UnitPiece& piece : woven.pieces) {
    if (piece.collective) continue;
    compute += piece.time;
    (piece.given ? given : synchronous) += piece.given || piece.synchronous ? piece.time : 0;
  }
  const auto ticks_with = [&](double factor, double of_synchronous) {
    for (std::size_t i = 0; i < woven.pieces.size(); ++i) {
      const UnitPiece& piece = woven.pieces[i];
      if (piece.collective || piece.given) continue;
      graph.steps[static_cast<std::size_t>(program.first_step) + i].time =
          to_ticks(Duration(piece.time * (piece.synchronous ? of_synchronous : factor)));
    }
    return run_alone(graph, program);
  };
  const double tolerance = program.steps;  // each step is rounded
  const double whole = to_duration(Ticks(ticks_with(1, 1))).base(), device = whole - given - synchronous;
  const double launched = device > 0 ? lowering.costs.host_bound(Duration(device), launches, site).base() - device : 0;
  double factor = 1, jittered = 1;
  const auto reach = [&](double seconds, auto ticks_of) {
    return factor_reaching(to_ticks(Duration(seconds)).base(), tolerance, ticks_of);
  };
  if (launched > 0) factor = reach(whole + launched, [&](double f) { return ticks_with(f, 1); });
  const double jitter = lowering.costs.stage_jitter(lowering.plan.pipeline);
  if (jitter != 1)
    jittered = reach((whole + launched - given) * jitter + given, [&](double f) { return ticks_with(factor * f, f); });
  ticks_with(factor * jittered, jittered);
  const double stretched = (compute - given - synchronous) * (factor * jittered - 1) + synchronous * (jittered - 1);
  program.breakdown.launch += Duration(stretched);
}

}  // namespace panpipe
