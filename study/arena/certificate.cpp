#include "study/arena/certificate.hpp"

#include "base/error.hpp"
#include "base/text/json_writer.hpp"
#include "costmodel/plan/slots.hpp"
#include "schedule/walk.hpp"
#include "study/arena/units.hpp"

namespace panpipe::study {
namespace {

void write_rows(JsonWriter& out, const Schedule& schedule) {
  out.list("rows", JsonLayout::Lines);
  for (const std::vector<Action>& row : schedule.order) {
    out.list();
    for (std::size_t i = 0; i < row.size(); i += row[i].cell_size()) out.value(cell_text(&row[i]));
    out.end();
  }
  out.end();
}

// Where forward and backward are cut apart, a path of forwards ends with the stage that begins the path of backwards.
void write_chains(JsonWriter& out, const Schedule& schedule) {
  const SlotCounts slots = slot_counts(schedule);
  if (!slots.any()) {
    out.field("chains", schedule.chains);
    return;
  }
  std::vector<std::vector<int>> forward, backward;
  for (const std::vector<int>& chain : schedule.chains) {
    forward.emplace_back(chain.begin(), chain.begin() + slots.forward + 1);
    backward.emplace_back(chain.begin() + slots.forward, chain.end());
  }
  out.field("chains", forward).field("backward_chains", backward);
}

// In units of an activation's forward.
void write_costs(JsonWriter& out, const Schedule& schedule, const CostRatio& ratio, double share) {
  const PassCosts costs = plain_costs(schedule, ratio);
  out.key("costs").object().field("F", 1.0).field("I", ratio.I).field("W", ratio.W).field("copy", ratio.copy);
  if (schedule.vocabulary_barriers > 0) out.field("S", costs.S * share).field("T", costs.T * share);
  out.end();
  if (!costs.stages.empty()) {
    out.list("stage_costs");
    for (const PassCosts::Stage& stage : costs.stages)
      out.value(std::vector<double>{stage.F * share, stage.I * share, stage.W * share});
    out.end();
  }
  if (!ratio.lengths.empty()) out.field("sizes", sizes_of(ratio, schedule.microbatches));
}

}  // namespace

std::string to_certificate(const Arena& arena, const Submission& submission) {
  const Entrant& entrant = arena.request.entrants.front();
  const Round& round = arena.rounds.front();
  const Judged& judged = round.judged.front();
  if (!judged.legal())
    throw InputError("no certificate: " + entrant.name + ": " +
                     (judged.refused.empty() ? judged.faults.front() : judged.refused));
  const Schedule schedule = order_of(arena.request, entrant, round.ratio);
  if (has_receives(schedule)) throw InputError("no certificate: " + entrant.name + " states its transfers");
  const Played played = play(schedule, round.ratio);
  const double share = 1 / share_of_activation(schedule);
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-order-certificate/1").field("name", entrant.name);
  if (!submission.by.empty()) out.field("by", submission.by);
  if (!submission.reference.empty()) out.field("reference", submission.reference);
  out.field("ranks", schedule.ranks).field("microbatches", schedule.microbatches).field("slices", schedule.splits);
  if (played.steps > 1) out.field("steps", played.steps).field("window", played.window).field("staleness", judged.staleness);
  if (schedule.vocabulary_barriers > 0) out.field("vocabulary_barriers", schedule.vocabulary_barriers);
  out.field("stage_to_rank", schedule.stage_to_rank);
  write_chains(out, schedule);
  write_costs(out, schedule, round.ratio, share);
  out.field("makespan", judged.makespan * share).field("held", judged.held * share);
  if (judged.bound_in_memory) out.field("bound", judged.bound * share);
  if (judged.on_host) out.field("left_out", "weights that come from the host's memory");
  write_rows(out, played.steps > 1 ? played.schedule : schedule);
  return out.end().finish() + "\n";
}

}  // namespace panpipe::study
