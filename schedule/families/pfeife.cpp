// The looped family that Pfeife's planner searches (ICML 2025), with its two parameters.
//
// Microbatches are divided into groups of `loop_batch`. Forwards: group after group, the rank's stages ascending, all
// microbatches of the group on each. Backwards: the same groups, stages descending. On rank r the first backward follows forward
// number (v-1) loop_batch + (p-r) + min(p-1-r, prefetch), counted from 1; from there one backward follows each forward.
// `prefetch` may also be a list that states how far each rank runs ahead ("3,1,0,0"), which the published planner's parameter
// cannot express. The members are made as the family defines them. Some (such as a loop_batch that leaves a short last group)
// contain a cycle, which check_schedule reports.
//
// Its runtime also supports two simpler orders (option `execution`). Breadth-first: all forwards, stage after stage, then all
// backwards, stages descending, both in ascending microbatch order. Pipeless: the same passes, but a stage's results leave only
// after its last microbatch, so stages on different ranks do not overlap; the row states its transfers.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "schedule/looped_turns.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {

namespace {

// Passes of one stage over all microbatches; where the transfers are stated, each input is received right before its pass and
// all results are sent behind the last one.
void add_stage(Row& row, const Schedule& schedule, int stage, bool forward, bool state_transfers) {
  const auto away = [&](int other) {
    return state_transfers && other >= 0 && other < schedule.stages &&
           schedule.stage_to_rank[other] != schedule.stage_to_rank[stage];
  };
  const bool receives = away(forward ? stage - 1 : stage + 1), sends = away(forward ? stage + 1 : stage - 1);
  for (int m = 0; m < schedule.microbatches; ++m) {
    if (receives) row.push_back(pass(forward ? ActionKind::RecvF : ActionKind::RecvB, stage, m));
    row.push_back(pass(forward ? ActionKind::F : ActionKind::B, stage, m));
  }
  if (!sends) return;
  for (int m = 0; m < schedule.microbatches; ++m) row.push_back(pass(forward ? ActionKind::SendF : ActionKind::SendB, stage, m));
}

Schedule make_stage_by_stage(int ranks, int microbatches, int chunks, bool state_transfers) {
  Schedule schedule = looped_schedule("pfeife", ranks, microbatches, chunks);
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    for (int chunk = 0; chunk < chunks; ++chunk) add_stage(row, schedule, chunk * ranks + rank, true, state_transfers);
    for (int chunk = chunks - 1; chunk >= 0; --chunk) add_stage(row, schedule, chunk * ranks + rank, false, state_transfers);
  }
  return schedule;
}

Schedule make_pfeife(int ranks, int microbatches, const ScheduleOptions& options) {
  const int chunks = integer_option(options, "stages_per_rank", 1, 1);
  const int loop_batch = integer_option(options, "loop_batch", microbatches, 1);
  const std::vector<int> prefetch = forwards_ahead(ranks, options);
  const std::string execution = word_option(options, "execution", {"loop", "breadth-first", "pipeless"});
  if (execution != "loop") {
    for (const char* key : {"loop_batch", "prefetch"})
      if (options.count(key) != 0)
        throw InputError(
            fmt::format("option '{}' of schedule pfeife belongs to execution=loop, not to execution={}", key, execution));
    return make_stage_by_stage(ranks, microbatches, chunks, execution == "pipeless");
  }

  Schedule schedule = looped_schedule("pfeife", ranks, microbatches, chunks);
  const std::vector<Turn> forward = turns(microbatches, loop_batch, chunks);
  const long long total = static_cast<long long>(forward.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const TurnsOfRank turn{forward, ranks, chunks, rank};
    const long long ahead = (chunks - 1LL) * loop_batch + ranks - rank + prefetch[rank] - 1;
    Row& row = schedule.order[rank];
    take_turns(
        static_cast<int>(total), static_cast<int>(std::min(ahead, total)), [&](int k) { row.push_back(turn.F(k)); },
        [&](int k) { row.push_back(turn.backward(ActionKind::B, k)); });
  }
  return schedule;
}

}  // namespace

std::vector<int> forwards_ahead(int ranks, const ScheduleOptions& options) {
  std::vector<int> ahead;
  const auto found = options.find("prefetch");
  if (found == options.end() || found->second.find(',') == std::string::npos) {
    const int prefetch = integer_option(options, "prefetch", 0, 0);
    for (int rank = 0; rank < ranks; ++rank) ahead.push_back(std::min(ranks - 1 - rank, prefetch));
    return ahead;
  }
  for (const std::string& part : split_text(found->second, ','))
    ahead.push_back(integer_option({{"prefetch", part}}, "prefetch", 0, 0));
  if (static_cast<int>(ahead.size()) != ranks)
    throw InputError(fmt::format("option 'prefetch' of schedule pfeife lists {} ranks, but there are {}", ahead.size(), ranks));
  return ahead;
}

// With the defaults of its parameters it is 1f1b; the search that varies them is --method pfeife.
ScheduleFamily pfeife_family() {
  return {"pfeife",
          "looped 1f1b in groups of microbatches, forwards run ahead",
          "Pfeife, ICML 2025",
          {{"stages_per_rank", "1"}, {"loop_batch", "M"}, {"prefetch", "0"}, {"execution", "loop"}},
          make_pfeife,
          /*refusal=*/nullptr,
          /*planned=*/false};
}

}  // namespace panpipe
