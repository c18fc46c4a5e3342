#include "planner/auto/last_families.hpp"

#include "planner/auto/held_activations.hpp"
#include "planner/auto/stage_recompute.hpp"
#include "planner/schedule_choice.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::planner {
namespace {

constexpr int kLargestSearch = 2048;  // passes of one kind of an order that is worth a search: about a second

}  // namespace

LastTried try_last_families(Evaluator& evaluator, const Configuration& start) {
  LastTried tried;
  if (start.pipeline == 1) return tried;
  for (std::size_t f = 0; f < forms().size() && !evaluator.common().stopped(); ++f) {
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
    const UnitSums& sums = evaluator.sums(c);
    if (!form.exists(c.pipeline, c.virtual_stages, c.microbatches) || c.stages() > sums.most_stages()) continue;
    if (form.split && !sums.split_backward()) continue;
    if (searched && c.stages() * c.microbatches > kLargestSearch) continue;
    Exact exact = searched ? fit_activations(evaluator, c) : evaluator.evaluate(c);
    tried.families.emplace_back(form.name);
    if (exact.usable()) tried.found.push_back(std::move(exact));
  }
  return tried;
}

}  // namespace panpipe::planner
