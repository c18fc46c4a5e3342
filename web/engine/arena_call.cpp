// arena: an order beside all families, or alone.
#include "app/arena.hpp"
#include "schedule/schedule.hpp"
#include "study/arena/arena.hpp"
#include "web/engine/schedule_call.hpp"

namespace panpipe::web {

Answer answer_arena(const Call& call) {
  bool split = false;
  app::ArenaRequest request;
  if (call.has("csv")) {
    Schedule order = schedule_of(call, {}, split);
    request.ranks = order.ranks;
    request.microbatches = order.microbatches;
    std::string name = order.name;
    request.entrants.push_back({std::move(name), "", {}, std::move(order)});
  } else {
    request.entrants.push_back(study::entrant_of({call.text("family"), options_of(call, split)}));
    if (call.has("ranks")) request.ranks = call.number("ranks", 0);
    if (call.has("microbatches")) request.microbatches = call.number("microbatches", 0);
  }
  request.ratios = call.texts("ratios");
  request.clusters = call.texts("clusters");
  if (request.clusters.empty()) request.clusters = {"none"};
  request.alone = call.truth("alone");
  request.threads = 1;
  const study::Arena arena = app::judge(std::move(request));
  return Answer().add_json("document", study::to_json(arena)).add("text", study::to_table(arena));
}

}  // namespace panpipe::web
