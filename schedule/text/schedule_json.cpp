// The JSON document panpipe-schedule/1.
#include "base/text/json_writer.hpp"
#include "schedule/rolling.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {

std::string to_json(const Schedule& schedule, const std::vector<ScheduleProblem>& problems,
                    const std::optional<ScheduleEvaluation>& evaluation) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-schedule/1").field("name", schedule.name);
  out.field("ranks", schedule.ranks).field("microbatches", schedule.microbatches).field("stages", schedule.stages);
  out.field("stage_to_rank", schedule.stage_to_rank).field("chains", schedule.chains);
  if (schedule.splits > 1) out.field("sequence_splits", schedule.splits);
  out.list("actions", JsonLayout::Lines);
  for (const std::vector<Action>& row : schedule.order) {
    out.list(JsonLayout::Dense);
    for (const Action& action : row)
      if (action.group_size != 0) out.value(cell_text(&action));
    out.end();
  }
  out.end().field("legal", problems.empty()).list("problems", JsonLayout::Lines);
  for (const ScheduleProblem& problem : problems) {
    out.object().field("rank", problem.rank).field("position", problem.position);
    out.field("action", problem.action).field("message", problem.message).end();
  }
  out.end();
  // An order that cannot finish has no times; the keys exist with the value null.
  const auto field = [&](std::string_view name, auto member) {
    evaluation ? out.field(name, (*evaluation).*member) : out.field(name, nullptr);
  };
  field("makespan", &ScheduleEvaluation::makespan);
  field("span", &ScheduleEvaluation::span);
  field("busy", &ScheduleEvaluation::busy);
  field("bubble_step", &ScheduleEvaluation::bubble_step);
  field("bubble_span", &ScheduleEvaluation::bubble_span);
  field("peak_activations", &ScheduleEvaluation::peak_activations);
  if (rolling_of(schedule) != Rolling::None) {
    out.field("period", evaluation ? evaluation->period : std::nullopt);
    out.field("staleness", staleness(schedule)).field("weight_versions", weight_versions(schedule));
  }
  if (schedule.lower_bound) {
    const double bound = *schedule.lower_bound;
    out.field("lower_bound", bound);
    out.field("gap", evaluation && bound > 0 ? std::optional(evaluation->makespan / bound - 1) : std::nullopt);
  }
  return out.end().finish() + "\n";
}

}  // namespace panpipe
