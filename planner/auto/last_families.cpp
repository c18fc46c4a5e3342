#include "planner/auto/last_families.hpp"

#include <algorithm>
#include <cmath>

#include "costmodel/timeline/memory_room.hpp"
#include "planner/auto/stage_recompute.hpp"
#include "planner/schedule_choice.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::planner {
namespace {

constexpr int kLargestSearch = 2048;  // passes of one kind of an order that is worth a search: about a second
constexpr int kMostHeld = 4;          // times what zb-h1 and zb-v hold: more memory ends no more waiting

// The bytes of one more microbatch in flight on the fullest rank, at most.
double bytes_each(Evaluator& evaluator, const Configuration& c) {
  double largest = 0;
  for (const StageCost& stage : evaluator.stages(c)) largest = std::max(largest, static_cast<double>(stage.kept));
  return largest;
}

// The family's own memory first; what is then left, or missing, is shared out among activations. The error of the memory model
// stays free where the family's own memory leaves it: the plan would stand behind others else.
Exact search_within_memory(Evaluator& evaluator, const SearchFacts& facts, Configuration c) {
  const int own = c.stages();
  c.held = static_cast<std::int16_t>(own);
  Exact best = evaluator.evaluate(c);
  if (best.step_time == 0) return best;
  const double each = bytes_each(evaluator, c) * facts.allocator;
  const double limit = static_cast<double>(facts.limit), with_room = limit / (1 + kMemoryModelError);
  const double more = each > 0 ? std::floor(((best.memory <= with_room ? with_room : limit) - best.memory) / each) : 0;
  int held = static_cast<int>(std::clamp(own + more, 2.0, static_cast<double>(kMostHeld * own)));
  constexpr int kTries = 3;  // the fullest moment may be another one then
  for (int i = 0; i < kTries && held >= 2 && held != own; ++i, --held) {
    c.held = static_cast<std::int16_t>(held);
    Exact next = evaluator.evaluate(c);
    if (!next.usable()) continue;
    return !best.usable() || next < best ? next : best;
  }
  return best;
}

}  // namespace

LastTried try_last_families(Evaluator& evaluator, const SearchFacts& facts, const Configuration& start,
                            const SearchOptions& options) {
  LastTried tried;
  if (start.pipeline == 1) return tried;
  for (std::size_t f = 0; f < forms().size() && !options.stopped(); ++f) {
    const FamilyForm& form = forms()[f];
    if (!form.last() || !may_choose(evaluator.scenario(), form.name)) continue;
    const bool searched = form.family->searched(), places_recompute = has_option(form.name, "ways");
    Configuration c = start;
    if (places_recompute) {  // in place of whole blocks' recompute
      if (start.recompute == Recompute::None || !recomputes_by_stage(evaluator.scenario())) continue;
      c.recompute = Recompute::None;
    }
    c.family = static_cast<std::int16_t>(f);
    c.virtual_stages = form.chunks;
    if (!form.exists(c.pipeline, c.virtual_stages, c.microbatches) || !evaluator.can_cut(c, form.split)) continue;
    if (searched && c.stages() * c.microbatches > kLargestSearch) continue;
    Exact exact = searched ? search_within_memory(evaluator, facts, c) : evaluator.evaluate(c);
    tried.families.emplace_back(form.name);
    if (exact.usable()) tried.found.push_back(std::move(exact));
  }
  return tried;
}

}  // namespace panpipe::planner
