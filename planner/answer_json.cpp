// An answer as the document panpipe-plan/1.
#include "base/text/json_writer.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "planner/candidate.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;
using Figures = std::vector<std::pair<std::string, double>>;

// Numbers and truth values bare, everything else as text.
void write_settings(JsonWriter& out, const Texts& settings) {
  for (const auto& [key, value] : settings) {
    if (const Parsed<long long> number = parse_integer(value); number.value)
      out.field(key, *number.value);
    else if (value == "true" || value == "false")
      out.field(key, value == "true");
    else
      out.field(key, value);
  }
  out.end();
}

void write_metrics(JsonWriter& out, std::string_view name, const Figures& metrics) {
  out.object(name);
  for (const auto& [key, value] : metrics) write_metric(out, key, value);
  if (const double* share = figure_named(metrics, "memory_share")) out.field("fits_how", fits_how(*share));
  out.end();
}

void write_candidate(JsonWriter& out, const Answer& answer, const Candidate& candidate) {
  out.object(JsonLayout::Lines).field("summary", candidate.summary).list("stages", JsonLayout::Lines);
  for (const PlannedStage& stage : candidate.stages) {
    out.object().field("operators", stage.operators).field("data", stage.data).field("tensor", stage.tensor);
    out.field("recompute", stage.recompute).field("devices", stage.devices).end();
  }
  out.end().object("schedule").field("name", candidate.schedule);
  write_settings(out, candidate.schedule_options);
  write_settings(out.object("settings"), candidate.settings);
  write_metrics(out, "metrics", candidate.metrics);
  if (!candidate.simulated.empty()) write_metrics(out, "simulated", candidate.simulated);
  if (!candidate.cautions.empty()) out.field("cautions", candidate.cautions);
  if (candidate.evidence) write_evidence(out, *candidate.evidence);
  if (const auto gain = gain_over_yours(answer, candidate); gain && &candidate != &*answer.yours)
    out.field("gain_over_yours", *gain).field("tie_with_yours", ties_with_yours(answer, candidate));
  if (const auto gain = gain_without_room(answer, candidate)) out.field("gain_over_best", *gain);
  out.field("tie", is_tie(answer, candidate)).field("unused_devices", unused_devices(answer, candidate)).end();
}

}  // namespace

std::string to_json(const Answer& answer) {
  const bool feasible = !answer.candidates.empty();
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-plan/1").field("method", name_of(answer.method));
  if (answer.trainer) {
    out.object("context");
    write_trainer(out, answer.trainer.get());
    out.end();
  }
  out.field("objective", answer.objective).field("feasible", feasible).field("tie_within", answer.tie_within).key("best");
  if (feasible)
    write_candidate(out, answer, answer.candidates.front());
  else
    out.value(nullptr);
  if (answer.yours) write_candidate(out.key("yours"), answer, *answer.yours);
  if (!answer.without_yours.empty()) out.field("without_yours", answer.without_yours);
  if (!answer.runs_in.empty()) out.field("runs_in", answer.runs_in);
  out.list("candidates", JsonLayout::Lines);
  for (const Candidate& candidate : answer.candidates) write_candidate(out, answer, candidate);
  out.end().object("search").field("evaluated", answer.search.evaluated).field("pruned", answer.search.pruned);
  out.field("lower_bound", answer.search.lower_bound).field("proved_optimal", answer.search.proved_optimal);
  if (!answer.search.proved_but_for.empty()) out.field("proved_but_for", answer.search.proved_but_for);
  out.field("interrupted", answer.interrupted).end();
  if (!answer.reason.empty()) out.field("reason", answer.reason);
  return out.field("notes", answer.notes).end().finish() + "\n";
}

}  // namespace panpipe::planner
