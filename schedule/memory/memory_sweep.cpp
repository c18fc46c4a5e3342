#include "schedule/memory/memory_sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/text/text_table.hpp"
#include "schedule/find_family.hpp"
#include "schedule/search/rows.hpp"
#include "schedule/search/search_order.hpp"
#include "schedule/step_bound.hpp"

namespace panpipe {
namespace {

constexpr int kMostPoints = 33;

int chunks_of(std::string_view family, int ranks) {
  std::vector<std::string_view> searched;
  for (const ScheduleFamily& row : schedule_families())
    if (row.searched()) searched.push_back(row.name);
  if (std::find(searched.begin(), searched.end(), family) == searched.end())
    throw InputError(fmt::format("--memory-sweep is for families that are searched within a memory limit: {}; not for '{}'",
                                 fmt::join(searched, ", "), family));
  return make_schedule(family, ranks, 1).stages / ranks;
}

// From one activation a stage to three times the ranks: every rank then works from its first input gradient on. Evenly spaced,
// with the memory of 1f1b and twice that always among them.
std::set<int> memories(int ranks, int microbatches, int chunks) {
  const int most = std::min(3 * ranks, microbatches * chunks), step = std::max(1, (most - chunks) / (kMostPoints - 3) + 1);
  std::set<int> result = {most};
  for (int memory = chunks; memory < most; memory += (most - chunks < kMostPoints ? 1 : step)) result.insert(memory);
  for (const int known : {ranks, 2 * ranks})
    if (known >= chunks && known <= most) result.insert(known);
  return result;
}

MemoryPoint point_of(const Schedule& schedule, const PassCosts& costs) {
  const ScheduleEvaluation evaluation = evaluate(schedule, costs);
  MemoryPoint point;
  point.held = *std::max_element(evaluation.peak_activations.begin(), evaluation.peak_activations.end());
  point.memory = point.held;
  point.makespan = evaluation.makespan;
  point.span = evaluation.span;
  point.bubble_step = evaluation.bubble_step;
  point.bubble_span = evaluation.bubble_span;
  return point;
}

// A family with a base is asked once for each limit; an order that holds less is kept where it is shorter.
MemorySweep sweep_by_family(MemorySweep sweep, int chunks) {
  for (const int memory : memories(sweep.ranks, sweep.microbatches, chunks)) {
    const Schedule schedule =
        make_schedule(sweep.name, sweep.ranks, sweep.microbatches, {{"memory", std::to_string(memory)}}, sweep.costs);
    MemoryPoint point = point_of(schedule, sweep.costs);
    if (!sweep.points.empty() && sweep.points.back().makespan < point.makespan) point = sweep.points.back();
    point.memory = memory;
    // The order's own bound covers all that the family may do, which this order need not.
    const double bound = schedule.lower_bound ? *schedule.lower_bound : step_bound(schedule, sweep.costs, memory).makespan;
    point.lower_bound = std::min(bound, point.makespan);
    sweep.points.push_back(point);
  }
  return sweep;
}

std::string costs_text(const PassCosts& costs) {
  return fmt::format("F={:g}, I={:g}, W={:g}, comm={:g}", costs.F, costs.I, costs.W, costs.comm);
}

}  // namespace

MemorySweep sweep_memory(std::string_view family, int ranks, int microbatches, const PassCosts& costs) {
  const int chunks = chunks_of(family, ranks);
  make_schedule(family, ranks, microbatches, {}, costs);  // sizes that the family refuses
  MemorySweep sweep{std::string(family), ranks, microbatches, costs, {}, {}};
  if (has_option(family, "base")) return sweep_by_family(std::move(sweep), chunks);
  search::OrderProblem problem = search::problem_of(ranks, microbatches, chunks, 0, costs);
  search::Rows best;
  const auto hand_made =
      chunks == 1 ? std::vector<const char*>{"1f1b", "zb-h1", "zb-h2"} : std::vector<const char*>{"1f1b-v", "zb-v"};
  for (const char* name : hand_made) {
    const Schedule schedule = make_schedule(name, ranks, microbatches);
    sweep.hand_made.emplace_back(name, point_of(schedule, costs));
  }
  for (const int memory : memories(ranks, microbatches, chunks)) {
    problem.memory = memory;
    std::vector<search::Rows> starts = search::known_orders(problem);
    if (!best.empty()) starts.push_back(best);
    search::Found found = search::find_order(problem, starts);
    MemoryPoint point = point_of(search::schedule_of(problem, found.rows, sweep.name), costs);
    point.memory = memory;
    point.lower_bound = std::min(found.bound.makespan, point.makespan);
    sweep.points.push_back(point);
    best = std::move(found.rows);
  }
  return sweep;
}

std::string to_text(const MemorySweep& sweep) {
  std::string text =
      fmt::format("{}: {} ranks, {} microbatches, {}\n", sweep.name, sweep.ranks, sweep.microbatches, costs_text(sweep.costs));
  TextTable table({"memory", "held", "makespan", "bubble", "no shorter", "least", "<"});
  const auto number = [](double value) { return fmt::format("{:.10g}", value); };
  const auto share = [](double value) { return fmt::format("{:.2f} %", 100 * value); };
  for (const MemoryPoint& point : sweep.points)
    table.row({std::to_string(point.memory), std::to_string(point.held), number(point.makespan), share(point.bubble_step),
               number(point.lower_bound), share(point.least_bubble())});
  for (const auto& [name, point] : sweep.hand_made)
    table.row({"", std::to_string(point.held), number(point.makespan), share(point.bubble_step), "", "", name});
  text += table.text();
  return text +
         "memory: activations of one stage a rank may hold; held: at most in the order found; no shorter: bound of every\n"
         "order's makespan within this memory, and least the bubble it would have\n";
}

std::string to_json(const MemorySweep& sweep) {
  using Json = nlohmann::ordered_json;
  const auto json_of = [](const MemoryPoint& point) {
    return Json{{"memory", point.memory}, {"peak_activations", point.held},   {"makespan", point.makespan},
                {"span", point.span},     {"bubble_step", point.bubble_step}, {"bubble_span", point.bubble_span}};
  };
  Json document = {
      {"schema", "panpipe-memory-sweep/1"}, {"name", sweep.name}, {"ranks", sweep.ranks}, {"microbatches", sweep.microbatches}};
  document["costs"] = {{"F", sweep.costs.F}, {"I", sweep.costs.I}, {"W", sweep.costs.W}, {"comm", sweep.costs.comm}};
  document["points"] = Json::array();
  for (const MemoryPoint& point : sweep.points) {
    Json entry = json_of(point);
    entry["lower_bound"] = point.lower_bound;
    entry["gap"] = point.lower_bound > 0 ? Json(point.makespan / point.lower_bound - 1) : Json();
    document["points"].push_back(entry);
  }
  document["hand_made"] = Json::array();
  for (const auto& [name, point] : sweep.hand_made) {
    Json entry = json_of(point);
    entry["name"] = name;
    entry.erase("memory");
    document["hand_made"].push_back(entry);
  }
  return document.dump(2) + "\n";
}

}  // namespace panpipe
