#include "schedule/search/search_order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/order_building.hpp"
#include "schedule/pass_costs.hpp"
#include "schedule/search/building_block_search.hpp"
#include "schedule/search/improve.hpp"
#include "schedule/search/lower_bound.hpp"
#include "schedule/search/rows.hpp"
#include "schedule/search/squeezed_block.hpp"

namespace panpipe::search {
namespace {

// Passes planned by the block search and timed by the improvement: together a few tenths of a second.
constexpr double kBlockBudget = 4e6, kImproveBudget = 2e7;
// Above this size blocks are chosen on fewer microbatches, enough to fill and drain the pipeline, and then run over all of them,
// because their steady states are equal. Improving so many passes would change little.
constexpr double kLargePasses = 6e4;
constexpr double kMostSqueezed = 5e5;  // a second or so

OrderProblem sample_of(const OrderProblem& problem) {
  if (problem.passes() <= kLargePasses) return problem;
  OrderProblem sample = problem;
  const int enough = static_cast<int>(kLargePasses / (problem.passes() / problem.microbatches));
  sample.microbatches = std::min(problem.microbatches, std::max(2 * problem.ranks, enough));
  return sample;
}

class Search {
 public:
  explicit Search(const OrderProblem& problem) : p_(problem), replay_(problem) { best_.bound = lower_bound(problem); }

  void consider(Rows rows) {
    Score score;
    if (rows.empty() || !fits_memory(p_, rows) || !replay_.run(rows, score)) return;
    if (best_.rows.empty() || score.better_than(best_.score)) {
      best_.rows = std::move(rows);
      best_.score = score;
    }
  }

  void run() {
    if (done()) return;
    const OrderProblem sample = sample_of(p_);
    const bool whole = sample.microbatches == p_.microbatches;
    std::vector<TriedBlock> blocks =
        search_building_blocks(sample, whole ? best_.bound : lower_bound(sample), p_.effort * kBlockBudget);
    for (TriedBlock& block : blocks) {
      if (!whole) block = try_building_block(p_, block.knobs);
      consider(block.rows);
    }
    // The first block is the one that always gets through.
    if (best_.rows.empty()) consider(try_building_block(p_, {}).rows);
    if (!whole) return;
    const double budget = p_.effort * kImproveBudget / 2;
    if (!done()) improve_from(best_.rows, budget);
    for (const TriedBlock& block : blocks)
      if (!done()) improve_from(block.rows, budget / static_cast<double>(blocks.size()));
  }

  Found result() {
    PANPIPE_CHECK(fits_memory(p_, best_.rows) && replay_.run(best_.rows, best_.score), "the search found no order");
    return std::move(best_);
  }

 private:
  bool done() const { return !best_.rows.empty() && !best_.bound.better_than(best_.score); }

  void improve_from(Rows rows, double passes) {
    Random random(2);
    Score score;
    replay_.run(rows, score);
    improve(p_, best_.bound, passes, random, rows, score);
    consider(std::move(rows));
  }

  const OrderProblem p_;
  RowTimer replay_;
  Found best_;
};

// V-Min and V-Half. Squeezing them is slow for many passes. In that case only the larger one that fits is made, and none if zb-v
// fits.
std::vector<Rows> published_starts(const OrderProblem& problem) {
  const bool large = problem.passes() > kLargePasses;
  std::vector<Rows> starts;
  if (problem.passes() > kMostSqueezed || (large && problem.memory >= 2 * problem.ranks)) return starts;
  for (const Pattern pattern : {Pattern::VHalf, Pattern::VMin}) {
    if (building_block_memory(pattern, problem.ranks) > problem.memory) continue;
    starts.push_back(squeezed_building_block(problem, pattern));
    if (large) break;
  }
  return starts;
}

std::string note_on(const OrderProblem& problem, const Found& found) {
  const double makespan = found.score.makespan, bound = found.bound.makespan;
  const std::string memory = fmt::format("{} activation{} a rank", problem.memory, problem.memory == 1 ? "" : "s");
  if (makespan <= bound * (1 + 2 * Score::kTolerance))
    return fmt::format("no order with {} has a shorter step than {:.12g}", memory, makespan);
  return fmt::format("no order with {} has a shorter step than {:.12g}: this one is at most {:.2f} % longer than the best",
                     memory, bound, 100 * (makespan / bound - 1));
}

}  // namespace

Found find_order(const OrderProblem& problem, const std::vector<Rows>& starts) {
  Search search(problem);
  for (const Rows& rows : starts) search.consider(rows);
  search.run();
  return search.result();
}

std::vector<Rows> known_orders(const OrderProblem& problem) {
  std::vector<Rows> orders = problem.chunks == 1 ? std::vector<Rows>() : published_starts(problem);
  const auto names = problem.chunks == 1 ? std::vector{"1f1b", "zb-h1", "zb-h2"} : std::vector{"zb-v", "1f1b-v"};
  for (const char* name : names) orders.push_back(rows_of(problem, make_schedule(name, problem.ranks, problem.microbatches)));
  return orders;
}

OrderProblem problem_of(int ranks, int microbatches, int chunks, int memory, const PassCosts& costs) {
  check_stage_costs(costs, ranks * chunks);
  OrderProblem problem{ranks, microbatches, chunks, memory, costs.F, costs.I, costs.W, costs.comm};
  if (costs.stages.empty()) return problem;
  problem.F = problem.I = problem.W = 0;
  for (const PassCosts::Stage& stage : costs.stages) {
    problem.each.push_back({stage.F, stage.I, stage.W});
    problem.F += stage.F / problem.stages();
    problem.I += stage.I / problem.stages();
    problem.W += stage.W / problem.stages();
  }
  return problem;
}

Schedule searched_schedule(const std::string& name, int ranks, int microbatches, int chunks, int memory, const PassCosts& costs,
                           double effort) {
  OrderProblem problem = problem_of(ranks, microbatches, chunks, memory, costs);
  problem.effort = effort;
  const Found found = find_order(problem, known_orders(problem));
  Schedule schedule = schedule_of(problem, found.rows, name);
  schedule.lower_bound = std::min(found.bound.makespan, found.score.makespan);
  schedule.notes.push_back(note_on(problem, found));
  return schedule;
}

}  // namespace panpipe::search
