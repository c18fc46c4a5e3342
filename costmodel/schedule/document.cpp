// The JSON document panpipe-schedule/1.
#include <nlohmann/json.hpp>

#include "costmodel/schedule/schedule.hpp"

namespace panpipe {
namespace {

using Json = nlohmann::ordered_json;

Json cells_of(const std::vector<Action>& row) {
  Json cells = Json::array();
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i].group_size != 0) cells.push_back(cell_text(&row[i]));
  return cells;
}

}  // namespace

std::string to_json(const Schedule& schedule, const std::vector<ScheduleProblem>& problems,
                    const std::optional<ScheduleEvaluation>& evaluation) {
  Json document;
  document["schema"] = "panpipe-schedule/1";
  document["name"] = schedule.name;
  document["ranks"] = schedule.ranks;
  document["microbatches"] = schedule.microbatches;
  document["stages"] = schedule.stages;
  document["stage_to_rank"] = schedule.stage_to_rank;
  document["chains"] = schedule.chains;
  if (schedule.splits > 1) document["sequence_splits"] = schedule.splits;
  document["actions"] = Json::array();
  for (const auto& row : schedule.order) document["actions"].push_back(cells_of(row));
  document["legal"] = problems.empty();
  document["problems"] = Json::array();
  for (const ScheduleProblem& problem : problems)
    document["problems"].push_back(
        {{"rank", problem.rank}, {"position", problem.position}, {"action", problem.action}, {"message", problem.message}});
  // An order that cannot finish has no times: the keys are there and null.
  document["makespan"] = evaluation ? Json(evaluation->makespan) : Json();
  document["span"] = evaluation ? Json(evaluation->span) : Json();
  document["busy"] = evaluation ? Json(evaluation->busy) : Json();
  document["bubble_step"] = evaluation ? Json(evaluation->bubble_step) : Json();
  document["bubble_span"] = evaluation ? Json(evaluation->bubble_span) : Json();
  document["peak_activations"] = evaluation ? Json(evaluation->peak_activations) : Json();
  // Names from files may be no UTF-8; the replacement character keeps the document readable.
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace panpipe
