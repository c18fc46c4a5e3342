// arena: an order beside all families, or alone.
#include "app/arena.hpp"
#include "schedule/schedule.hpp"
#include "study/arena/arena.hpp"
#include "web/engine/schedule_call.hpp"

namespace panpipe::web {

Answer answer_arena(const Call& call) {
  bool split = false;
  const PassCosts costs = costs_of(call);
  Schedule schedule = schedule_of(call, costs, split);
  app::ArenaRequest request;
  request.ranks = schedule.ranks;
  request.microbatches = schedule.microbatches;
  const std::string name = schedule.name;
  request.entrants.push_back({name, "", {}, std::move(schedule)});
  request.ratios = call.texts("ratios");
  request.clusters = call.texts("clusters");
  if (request.clusters.empty()) request.clusters = {"none"};
  request.alone = call.truth("alone");
  request.threads = 1;
  const study::Arena arena = app::judge(std::move(request));
  return Answer().add_json("document", study::to_json(arena)).add("text", study::to_table(arena));
}

}  // namespace panpipe::web
