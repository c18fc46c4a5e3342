// The JSON document panpipe-schedule/1.
#include <nlohmann/json.hpp>

#include "schedule/schedule.hpp"

namespace panpipe {
namespace {

using Json = nlohmann::ordered_json;

Json cells_of(const std::vector<Action>& row) {
  Json cells = Json::array();
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i].group_size != 0) cells.push_back(cell_text(&row[i]));
  return cells;
}

// Names from files may be no UTF-8; the replacement character keeps the document readable.
std::string compact(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A line for each key, and for each entry of the lists that grow: a rank's actions stay on one line.
std::string laid_out(const Json& document) {
  std::string text = "{";
  for (const auto& [key, value] : document.items()) {
    text += (text.size() > 1 ? ",\n  " : "\n  ") + Json(key).dump() + ": ";
    if ((key != "actions" && key != "problems") || value.empty()) {
      text += compact(value);
      continue;
    }
    std::string lines;
    for (const Json& entry : value) lines += (lines.empty() ? "\n    " : ",\n    ") + compact(entry);
    text += "[" + lines + "\n  ]";
  }
  return text + "\n}";
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
  if (schedule.lower_bound) {
    const double bound = *schedule.lower_bound;
    document["lower_bound"] = bound;
    document["gap"] = evaluation && bound > 0 ? Json(evaluation->makespan / bound - 1) : Json();
  }
  return laid_out(document) + "\n";
}

}  // namespace panpipe
