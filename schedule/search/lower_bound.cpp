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
//   ways    an activation that is recomputed counts for F and from R to the end of W at least, and its R takes the rank's time;
//   one
//           that is offloaded for F, its two copies, I and W, and its copies take the lane's time. In a step of length T at most
//           (T - head - work) / F activations can be recomputed and (T - head) / copies offloaded. The longest lives leave first;
//           if the area is still larger than M (T - head), then T is too short.
#include "schedule/search/lower_bound.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

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

// The area that rank r cannot do without in the time from its first forward to the end of a step, less the area that it has.
double missing_area(const OrderProblem& p, int r, const Ways& ways, double time) {
  double F = std::numeric_limits<double>::infinity(), backward = F, area = 0;
  std::vector<double> lives;
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const int stage = p.stage_on(r, chunk);
    const double own = p.length(Kind::I, stage) + p.length(Kind::W, stage);
    F = std::min(F, p.length(Kind::F, stage));
    backward = std::min(backward, own);
    lives.push_back(way(p, stage, stage) + own);
    area += p.microbatches * lives.back();
  }
  std::sort(lives.rbegin(), lives.rend());
  // Cheapest way first: what it leaves of a life, and how many activations can take it.
  std::vector<std::pair<double, double>> left;
  if (ways.recompute) left.emplace_back(2 * F + backward, F > 0 ? std::max(0.0, time - p.work(r)) / F : 1e18);
  const double copies = ways.out + ways.in;
  if (ways.offload) left.emplace_back(F + copies + backward, copies > 0 ? time / copies : 1e18);
  std::sort(left.begin(), left.end());
  std::size_t at = 0;
  for (const double life : lives)
    for (double microbatches = p.microbatches; microbatches > 0 && at < left.size() && life > left[at].first;) {
      const double leaving = std::min(microbatches, left[at].second);
      area -= leaving * (life - left[at].first);
      microbatches -= leaving;
      left[at].second -= leaving;
      if (left[at].second <= 0) ++at;
    }
  return area - p.memory * time;
}

}  // namespace

double lower_bound(const OrderProblem& problem, const Ways& ways) {
  OrderProblem roomy = problem;
  roomy.memory = problem.microbatches * problem.chunks;
  const double any_memory = lower_bound(roomy).makespan;
  double bound = any_memory, head = 0;
  for (int r = 0; r < problem.ranks; ++r) {
    double enough = lower_bound(problem).makespan, short_of = 0;
    const double allowed = Score::kTolerance * enough * problem.memory;
    if (missing_area(problem, r, ways, any_memory - head) > allowed) {
      for (short_of = any_memory; enough - short_of > Score::kTolerance * enough;) {
        const double middle = (short_of + enough) / 2;
        (missing_area(problem, r, ways, middle - head) > allowed ? short_of : enough) = middle;
      }
      bound = std::max(bound, short_of);
    }
    head += problem.length(Kind::F, r) + problem.comm;
  }
  return bound;
}

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
