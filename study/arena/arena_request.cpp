#include "study/arena/arena_request.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace panpipe::arena {
namespace {

void set_sizes(const ArenaAsked& asked, ArenaRequest& request) {
  for (const Entrant& entrant : request.entrants) {
    if (entrant.given() == nullptr) continue;
    request.ranks = entrant.given()->ranks;
    request.microbatches = entrant.given()->microbatches;
    break;
  }
  request.ranks = asked.ranks.value_or(request.ranks);
  request.microbatches = asked.microbatches.value_or(request.microbatches);
}

}  // namespace

ArenaRequest request_of(ArenaAsked asked) {
  ArenaRequest request;
  request.entrants = std::move(asked.entrants);
  set_sizes(asked, request);
  if (asked.alone && request.entrants.empty()) throw InputError("--alone leaves the families out: name a schedule");
  if (!asked.alone)
    for (Entrant& family : all_families()) {
      const auto same = [&](const Entrant& given) { return given.name == family.name; };
      if (std::none_of(request.entrants.begin(), request.entrants.end(), same)) request.entrants.push_back(std::move(family));
    }
  for (const std::string& text : asked.ratios) request.ratios.push_back(read_cost_ratio(text));
  if (request.ratios.empty()) request.ratios.push_back(cost_ratios().front());
  request.clusters = std::move(asked.clusters);
  if (request.clusters.empty()) request.clusters = {"rtx3090x8-nobridge", "dgx-a100-80g", "h100x8"};
  if (request.clusters == std::vector<std::string>{"none"}) request.clusters.clear();
  return request;
}

}  // namespace panpipe::arena
