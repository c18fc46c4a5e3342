// Each bound looks at one rank r and asks for how long it must be idle. Notation: S stages in a chain, N = passes of each kind on
// a rank, M activations that fit (at most N). All statements hold for every placement in which each way through the ranks visits
// each rank once, and the first way from rank 0 on: the line, the V, waves and loops.
//
//   head    r waits for the first forward to reach it.
//   warm-up before its first input gradient r can do nothing but forwards, and no more than M of them. That gradient comes after
//           the first microbatch has gone to the end of the chain and back to r.
//   tail    when r starts its last forward, at most M activations are alive, so what remains to be done on r is that forward
//           and M pairs of I and W at most. Meanwhile that microbatch goes to the end of the chain and all the way back.
//           Where N > M the last forward starts after the first input gradient: warm-up and tail are then disjoint and add up.
//   area    an activation lives at least as long as its microbatch's way to the end and back takes. Lives add up to no more than
//           M times the time, less the ramps: forwards start one after another, weight gradients end one after another.
#include "schedule/search/lower_bound.hpp"

#include <algorithm>
#include <limits>

namespace panpipe::search {
namespace {

// From the start of F on `stage` to the start of I on stage `back` of the same microbatch (back <= stage or >= it), or with
// back = -1 to the end of I on stage 0.
double way(const OrderProblem& p, int stage, int back) {
  double time = 0;
  for (int s = stage; s < p.stages(); ++s) time += p.length(Kind::F, s) + (s + 1 < p.stages() ? p.hop(s) : 0);
  for (int s = p.stages() - 1; s > back; --s) time += p.length(Kind::I, s) + (s > 0 ? p.hop(s - 1) : 0);
  return time;
}

struct RankBounds {
  double makespan, span;
};

RankBounds of_rank(const OrderProblem& p, int r) {
  const int passes = p.microbatches * p.chunks;
  const double fit = std::min(p.memory, passes);
  const int last = p.stage_on(r, p.chunks - 1);  // the stage of r whose forwards and input gradients meet first
  double head = 0;
  for (int s = 0; s < r; ++s) head += p.length(Kind::F, s) + p.comm;
  // Where the rank's stages differ: the longest passes that a bound may take off, the shortest that it may count.
  double F = 0, backward = 0, shortest = std::numeric_limits<double>::infinity();
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const int stage = p.stage_on(r, chunk);
    const double weight = p.length(Kind::W, stage);
    F = std::max(F, p.length(Kind::F, stage));
    backward = std::max(backward, p.length(Kind::I, stage) + weight);
    shortest = std::min(shortest, p.length(Kind::F, stage) + weight);
  }
  if (p.chunks > 1 && !p.each.empty()) {  // the two may be of different stages
    const auto least = [&](Kind kind) {
      double length = p.length(kind, r);
      for (int chunk = 1; chunk < p.chunks; ++chunk) length = std::min(length, p.length(kind, p.stage_on(r, chunk)));
      return length;
    };
    shortest = least(Kind::F) + least(Kind::W);
  }
  const double until_gradient = way(p, r, last);  // from r's first start to its first I
  const double forwards = fit * F;
  const double warm_up = std::max(0.0, until_gradient - forwards);
  const double left = F + fit * backward;  // work after the last forward's start, at most
  const double own_tail = std::max(0.0, way(p, last, r - 1) - (r > 0 ? p.hop(r - 1) : 0) + p.length(Kind::W, r) - left);
  const double step_tail = std::max(0.0, way(p, last, -1) + p.length(Kind::W, 0) - left);
  const bool disjoint = passes > p.memory;
  const auto both = [&](double tail) { return p.work(r) + (disjoint ? warm_up + tail : std::max(warm_up, tail)); };

  double alive = 0;
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const int stage = p.stage_on(r, chunk);
    alive += way(p, stage, stage) + p.length(Kind::I, stage) + p.length(Kind::W, stage);
  }
  const double ramps = (fit - 1) / 2 * shortest;
  const double area = p.microbatches * alive / fit + ramps;
  return {head + std::max(both(step_tail), area), std::max(both(own_tail), area)};
}

}  // namespace

Score lower_bound(const OrderProblem& problem) {
  Score bound;
  bound.makespan = way(problem, 0, -1) + problem.length(Kind::W, 0);
  for (int r = 0; r < problem.ranks; ++r) {
    const RankBounds rank = of_rank(problem, r);
    bound.makespan = std::max(bound.makespan, rank.makespan);
    bound.span = std::max(bound.span, rank.span);
  }
  return bound;
}

}  // namespace panpipe::search
