// The steps of a pass or a group and their times, with the host and jitter added and rounded to whole picoseconds.
// docs/models/lowering.md has the equations.
#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/lowering/pass_draft.hpp"
#include "costmodel/lowering/pass_lanes.hpp"

namespace panpipe {

namespace {

constexpr double kTicksPerSecond = 1e12;

double& part_of(DraftStep& step, const UnitPiece& piece) {
  return piece.given ? step.given : piece.synchronous ? step.synchronous : step.launched;
}

// Steps of a draft that the host launches as one: all of a pass or a group, or a part that waits for parameters of its own.
struct Span {
  std::size_t first = 0, end = 0;
  std::size_t part = 0, last_part = 0;  // of the draft's parts, where it has some
};
Span all_of(const DraftProgram& draft) {
  return {0, draft.steps.size(), 0, draft.part_ends.empty() ? 0 : draft.part_ends.size() - 1};
}
Span part_of(const DraftProgram& draft, std::size_t k) {
  const auto end = [&](std::size_t part) { return static_cast<std::size_t>(draft.part_ends[part]); };
  return {k == 0 ? 0 : end(k - 1), end(k), k, k};
}

double sum_of(const DraftProgram& draft, Span span, double DraftStep::*part) {
  double sum = 0;
  for (std::size_t s = span.first; s < span.end; ++s) sum += draft.steps[s].*part;
  return sum;
}

bool has_collectives(const DraftProgram& draft, Span span) {
  return std::any_of(draft.steps.begin() + static_cast<std::ptrdiff_t>(span.first),
                     draft.steps.begin() + static_cast<std::ptrdiff_t>(span.end),
                     [](const DraftStep& step) { return step.step.collective; });
}

// The steps with their compute scaled by a factor.
enum class Rounding { None, WholeTicks };
void set_times(const DraftProgram& draft, Span span, double launched, double synchronous, Rounding rounding,
               std::vector<ProgramStep>& steps) {
  steps.resize(span.end - span.first);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const DraftStep& from = draft.steps[span.first + s];
    steps[s] = from.step;
    if (from.step.collective) continue;
    steps[s].time = Ticks(0);
    for (const double seconds : {from.given, from.launched * launched, from.synchronous * synchronous})
      steps[s].time += rounding == Rounding::WholeTicks ? to_ticks(Duration(seconds)) : Ticks(seconds * kTicksPerSecond);
  }
}

// Alone on idle links: when the compute lane is free, when all has ended, and how long of that it computed. Ticks.
struct RunAlone {
  double lane = 0, end = 0, busy = 0;
};

RunAlone run_alone(const ProgramStep* steps, const Program& program, bool collectives_run_on, bool whole_ticks) {
  PassLanes lanes;
  lanes.whole_ticks = whole_ticks;
  std::vector<MemberRun> runs(program.members);
  RunAlone run;
  run.end = run_steps(
      steps, program, collectives_run_on, lanes, runs.data(), [](std::int32_t, double, double) {}, [](std::int32_t, double) {});
  run.lane = lanes.compute;
  for (const MemberRun& member : runs) run.busy += member.busy;
  return run;
}

// A span of a draft on idle links, before its steps are rounded.
class Trial {
 public:
  Trial(const Lowering& lowering, const DraftProgram& draft, Span span, int site)
      : draft_(draft), span_(span), collectives_run_on_(lowering.graph.collectives_run_on) {
    shape_.steps = static_cast<std::int32_t>(span.end - span.first);
    shape_.members = static_cast<std::uint8_t>(draft.ends.size());
    shape_.overlap_loss = overlap_loss(lowering.costs, site);
  }
  RunAlone run(double launched, double synchronous) {
    set_times(draft_, span_, launched, synchronous, Rounding::None, steps_);
    return run_alone(steps_.data(), shape_, collectives_run_on_, false);
  }

 private:
  const DraftProgram& draft_;
  Span span_;
  bool collectives_run_on_;
  Program shape_;
  std::vector<ProgramStep> steps_;
};

// The factor with which `value_of`, which grows, reaches the target: regula falsi (Illinois), exact after one step where it is a
// straight line. Below 1 where the target is: a profile may hold more slowing down than the plan has.
template <class ValueOf>
double factor_reaching(double target, ValueOf value_of) {
  constexpr double kTolerance = 1e-13;  // far below the picosecond that times are rounded to
  const double tolerance = kTolerance * target;
  double low = 1, high = 1, at_low = value_of(low) - target, at_high = at_low;
  if (at_high > tolerance) {
    low = 0, at_low = value_of(low) - target;
    if (at_low >= 0) return low;
  }
  for (int doublings = 0; at_high < -tolerance; ++doublings) {
    if (doublings == 60) return 1;  // nothing to stretch
    low = high, at_low = at_high;
    high *= 2;
    at_high = value_of(high) - target;
  }
  int side = 0;  // whose end moved last
  for (int round = 0; round < 100 && at_high > tolerance; ++round) {
    const double next = (low * at_high - high * at_low) / (at_high - at_low), at_next = value_of(next) - target;
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

std::array<Duration*, 7> timed_parts(Breakdown& b) {
  return {&b.compute, &b.attention, &b.operands, &b.memory, &b.launch, &b.host, &b.host_paced};
}

Breakdown shared_out(Breakdown breakdown, double share) {
  breakdown.work = breakdown.work * share;
  breakdown.traffic = Bytes(static_cast<std::int64_t>(static_cast<double>(breakdown.traffic.base()) * share));
  for (Duration* part : timed_parts(breakdown)) *part = *part * share;
  return breakdown;
}

// Puts a step at `at`, into part `part`. Ends of members and trains up to there stay.
void insert_step(DraftProgram& draft, std::size_t at, std::size_t part, const DraftStep& step) {
  draft.steps.insert(draft.steps.begin() + static_cast<std::ptrdiff_t>(at), step);
  const auto shift = [&](std::int32_t& end) { end += static_cast<std::size_t>(end) > at ? 1 : 0; };
  for (MemberEnds& ends : draft.ends) shift(ends.all), shift(ends.gradient);
  for (auto& train : draft.trains) shift(train.second);
  for (; part < draft.part_ends.size(); ++part) ++draft.part_ends[part];
}

// A moment of a span that has collectives, when the host and jitter have added their parts, and the factors of compute for it.
struct Moment {
  double launched = 1, jittered = 1;
  double ticks = 0;
};

// The time of a span on the device, and its additions.
struct SpanTime {
  RunAlone bare;
  double given = 0, synchronous = 0, untouched = 0;  // compute, seconds
  double jitter = 1;
  HostWork host;
  int site = 0;

  double device(double RunAlone::*at) const { return bare.*at / kTicksPerSecond - given - synchronous; }
};

Moment moment_of(const Lowering& lowering, const SpanTime& time, Trial& trial, double RunAlone::*at) {
  const double device = time.device(at), longer = host_wait(lowering.costs, device, time.host, time.site);
  Moment moment;
  if (longer > 0)
    moment.launched = factor_reaching(time.bare.*at + longer * kTicksPerSecond, [&](double f) { return trial.run(f, 1).*at; });
  moment.ticks = ((device + longer + time.synchronous) * time.jitter + time.given) * kTicksPerSecond;
  if (time.jitter != 1)
    moment.jittered = factor_reaching(moment.ticks, [&](double f) { return trial.run(moment.launched * f, f).*at; });
  return moment;
}

// With a last collective that runs on, the lane is free before the span ends. The host prolongs both: to the end that the span
// would have if the collective were awaited, and the lane until the host has launched what follows. So running on never delays.
struct HostBehind {
  Moment factors;
  double idle = 0;  // ticks for which the lane then waits for the host
};
HostBehind running_on(const Lowering& lowering, const SpanTime& time, Trial& trial) {
  HostBehind result{moment_of(lowering, time, trial, &RunAlone::lane), 0};
  if (time.bare.end <= time.bare.lane) return result;
  const Moment end = moment_of(lowering, time, trial, &RunAlone::end);
  const double lane = trial.run(end.launched * end.jittered, end.jittered).lane;
  if (result.factors.ticks - lane < 0.5) return result;
  return {end, result.factors.ticks - lane};
}

// The part of a span's time that grows with the time of a launch. Device and host determine the span's time T(device, host) to
// the first degree, so that it is T - device dT/d(device).
double paced_by_host(const LoweringCosts& costs, double device, const HostWork& work, int site) {
  constexpr double kStep = 1e-4;  // of the device's time; the curve is smooth
  const auto time = [&](double of) { return of + host_wait(costs, of, work, site); };
  return std::max(0.0, time(device) - (time(device * (1 + kStep)) - time(device)) / kStep);
}

// Scales a span's compute to the time of its launches and by jitter, and adds what that changes to the breakdown.
void prolong(const Lowering& lowering, double jitter, const HostWork& work, int site, DraftProgram& draft, Span span,
             Breakdown& breakdown) {
  SpanTime time;
  time.given = sum_of(draft, span, &DraftStep::given);
  time.synchronous = sum_of(draft, span, &DraftStep::synchronous);
  time.untouched = sum_of(draft, span, &DraftStep::launched);
  time.jitter = jitter;
  time.host = work;
  time.site = site;
  const double computed = time.given + time.synchronous + time.untouched;
  const bool waits = has_collectives(draft, span);
  // Without collectives its steps follow one another, and every factor is known.
  if (waits) time.bare = Trial(lowering, draft, span, site).run(1, 1);
  const double device = waits ? time.device(&RunAlone::lane) : time.untouched;
  const double by_host = host_wait(lowering.costs, device, work, site);
  breakdown.launch += Duration(by_host);
  breakdown.host += Duration(host_wait(lowering.costs, 0, work, site));
  breakdown.host_paced += Duration(paced_by_host(lowering.costs, device, work, site));
  if (by_host > 0 && time.untouched == 0) {  // only collectives, or compute after a synchronisation: the host comes first
    DraftStep host;
    host.launched = by_host;
    insert_step(draft, span.first, span.part, host);
    ++span.end;
  }
  Moment factors;
  double idle = 0;
  if (waits) {
    // Compute next to collectives takes longer. A difference of less than a tick is a rounding effect of sums in another order.
    const double slowed = std::floor(time.bare.busy - computed * kTicksPerSecond + 0.5) / kTicksPerSecond;
    breakdown.compute += Duration(std::max(slowed, 0.0));
    Trial trial(lowering, draft, span, site);
    const HostBehind behind = running_on(lowering, time, trial);
    factors = behind.factors;
    idle = behind.idle;
  } else {
    factors.jittered = time.jitter;
    if (time.untouched > 0) factors.launched = 1 + by_host / time.untouched;
  }
  for (std::size_t s = span.first; s < span.end; ++s) {
    draft.steps[s].launched *= factors.launched * factors.jittered;
    draft.steps[s].synchronous *= factors.jittered;
  }
  if (idle > 0) {
    DraftStep host;
    host.step.free = true;
    host.step.member = draft.steps[span.end - 1].step.member;
    host.given = idle / kTicksPerSecond * (1 - overlap_loss(lowering.costs, site));  // the collective next to it does not slow it
    insert_step(draft, span.end, span.last_part, host);
  }
}

}  // namespace

DraftStep step_of(const Lowering& lowering, const UnitPiece& piece) {
  DraftStep step;
  if (piece.collective) {
    const CollectiveFlow& flow = lowering.graph.flows[piece.flow];
    step.step.collective = true;
    step.step.flow = piece.flow;
    step.step.time = flow.latency + flow.transfer;
  } else {
    part_of(step, piece) = piece.time;
  }
  return step;
}

DraftProgram steps_alone(const Lowering& lowering, const PassDraft& pass) {
  // Where a full backward hands its gradient on before its last weight gradient, that moment is seen.
  const bool sends_early = lowering.scenario.transfers.full_backward_sends == TransferRules::FullBackwardSends::InputGradient;
  DraftProgram draft;
  MemberEnds& ends = draft.ends.emplace_back();
  bool overlaps = false;  // the last collective lets what is computed now run
  bool joins = false;     // compute joins the last step
  bool weight = false;
  const auto end_parts = [&](std::size_t pieces) {
    for (; draft.part_ends.size() < pass.part_ends.size() && pass.part_ends[draft.part_ends.size()] == pieces;
         joins = overlaps = false)
      draft.part_ends.push_back(static_cast<std::int32_t>(draft.steps.size()));
  };
  for (std::size_t i = 0; i < pass.pieces.size(); ++i) {
    const UnitPiece& piece = pass.pieces[i];
    end_parts(i);
    if (piece.collective) {
      draft.steps.push_back(step_of(lowering, piece));
      overlaps = piece.hidden;
    } else {
      if (!joins || draft.steps.back().step.free != overlaps || draft.steps.back().step.chunk || piece.chunk ||
          (sends_early && weight != piece.weight)) {
        draft.steps.emplace_back().step.free = overlaps;
        draft.steps.back().step.chunk = piece.chunk;
      }
      part_of(draft.steps.back(), piece) += piece.time;
      weight = piece.weight;
      if (piece.closed) overlaps = false;
    }
    joins = !piece.collective && piece.train < 0;
    ends.all = static_cast<std::int32_t>(draft.steps.size());
    if (!piece.weight) ends.gradient = ends.all;
    if (piece.train >= 0) draft.trains.emplace_back(piece.train, ends.all);
  }
  end_parts(pass.pieces.size());
  return draft;
}

DeviceTime device_time(const Lowering& lowering, const PassDraft& draft) {
  const DraftProgram steps = steps_alone(lowering, draft);
  const Span all = all_of(steps);
  DeviceTime time{sum_of(steps, all, &DraftStep::launched), sum_of(steps, all, &DraftStep::synchronous)};
  if (has_collectives(steps, all))
    time.launched = Trial(lowering, steps, all, draft.site).run(1, 1).lane / kTicksPerSecond - time.synchronous;
  return time;
}

void measure_alone(const TaskGraph& graph, Program& program) {
  const RunAlone run = run_alone(graph.steps.data() + program.first_step, program, graph.collectives_run_on, true);
  program.duration = Ticks(run.end);
  program.exposed_communication = Ticks(run.end - run.busy);
  program.breakdown.communication = to_duration(program.exposed_communication);
  program.breakdown.total = to_duration(program.duration);
}

std::int32_t add_program(Lowering& lowering, DraftProgram& draft, const PassDraft& whole) {
  const double given = sum_of(draft, all_of(draft), &DraftStep::given);
  const double jitter = lowering.costs.stage_jitter(lowering.plan.pipeline);
  Breakdown breakdown = whole.breakdown;
  const auto add = [&](const HostWork& work, Span span) { prolong(lowering, jitter, work, whole.site, draft, span, breakdown); };
  // Under ZeRO 3 every part waits for a gather of its own; other passes have parts in a stage's first forward alone.
  if (lowering.zero() < 3 || draft.part_ends.empty())
    add(whole.host, all_of(draft));
  else
    for (std::size_t k = 0; k < draft.part_ends.size(); ++k) add(whole.part_host[k], part_of(draft, k));
  for (Duration* part : timed_parts(breakdown)) *part = *part * jitter;
  breakdown.launch += Duration(given);

  TaskGraph& graph = lowering.graph;
  Program program;
  program.first_step = static_cast<std::int32_t>(graph.steps.size());
  program.steps = static_cast<std::int32_t>(draft.steps.size());
  program.members = static_cast<std::uint8_t>(draft.ends.size());
  program.all_inputs = lowering.scenario.transfers.braid_inputs == TransferRules::BraidInputs::Together;
  program.overlap_loss = overlap_loss(lowering.costs, whole.site);
  program.breakdown = shared_out(breakdown, 1.0 / lowering.plan.schedule.splits);
  std::vector<ProgramStep> steps;
  set_times(draft, all_of(draft), 1, 1, Rounding::WholeTicks, steps);
  graph.steps.insert(graph.steps.end(), steps.begin(), steps.end());
  const std::int32_t made = lowering.add(program);
  lowering.member_ends.back() = draft.ends;
  return made;
}

std::int32_t add_part_program(Lowering& lowering, std::int32_t whole, std::int32_t begin, std::int32_t end, Ticks overlap) {
  TaskGraph& graph = lowering.graph;
  Program part = graph.programs[whole];
  const auto computes = [&](std::int32_t first, std::int32_t last) {
    double sum = 0;
    for (std::int32_t s = first; s < last; ++s)
      if (const ProgramStep& step = graph.steps[s]; !step.collective) sum += step.time.base();
    return sum;
  };
  const double all = computes(part.first_step, part.first_step + part.steps);
  const std::int32_t first = part.first_step + begin;
  const double work = computes(first, part.first_step + end);
  const double longer = overlapped_time(work, overlap.base(), part.overlap_loss) - work;
  part.breakdown = shared_out(part.breakdown, all > 0 ? work / all : 0);
  part.breakdown.compute += to_duration(Ticks(longer));
  part.first_step = first;
  part.steps = end - begin;
  if (longer > 0) {
    part.first_step = static_cast<std::int32_t>(graph.steps.size());
    for (std::int32_t s = first; s < first + part.steps; ++s) {
      ProgramStep step = graph.steps[s];
      if (!step.collective) step.time = Ticks(std::nearbyint(step.time.base() * (1 + longer / work)));
      graph.steps.push_back(step);
    }
  }
  return lowering.add(part);
}

}  // namespace panpipe
