#include "study/arena/certificate.hpp"

#include "base/error.hpp"
#include "base/text/json_writer.hpp"
#include "schedule/walk.hpp"
#include "study/arena/arena_tables.hpp"

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
  const double share = judged.stages_per_rank * schedule.splits;
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-order-certificate/1").field("name", entrant.name);
  if (!submission.by.empty()) out.field("by", submission.by);
  if (!submission.reference.empty()) out.field("reference", submission.reference);
  out.field("ranks", schedule.ranks).field("microbatches", schedule.microbatches).field("slices", schedule.splits);
  out.field("stage_to_rank", schedule.stage_to_rank);
  out.list("chains");
  for (const std::vector<int>& chain : schedule.chains) out.value(chain);
  out.end();
  out.key("costs").object().field("F", 1.0).field("I", round.ratio.I).field("W", round.ratio.W).field("copy", 1.0).end();
  out.field("makespan", judged.makespan * share).field("held", judged.held * share);
  if (judged.bound_in_memory) out.field("bound", judged.bound * share);
  write_rows(out, schedule);
  return out.end().finish() + "\n";
}

}  // namespace panpipe::study
