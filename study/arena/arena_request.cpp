#include "study/arena/arena_request.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/input/reader.hpp"
#include "base/input/shipped.hpp"
#include "base/option_fault.hpp"
#include "costmodel/cluster/cluster_reader.hpp"

namespace panpipe::study {
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

void add_default_clusters(ArenaRequest& request) {
  for (const char* name : kDefaultClusters) {
    ReadLog log;
    const int devices = load_cluster(shipped_file("clusters", name), log).size();
    log.throw_if_errors();
    if (devices < request.ranks)
      request.left_out.push_back(fmt::format("{} ({} devices)", name, devices));
    else
      request.clusters.emplace_back(name);
  }
}

}  // namespace

ArenaRequest request_of(ArenaAsked asked) {
  ArenaRequest request;
  request.entrants = std::move(asked.entrants);
  set_sizes(asked, request);
  if (asked.alone && request.entrants.empty()) throw option_fault("alone", "this leaves the families out: name a schedule");
  for (const std::string& text : asked.ratios) request.ratios.push_back(read_cost_ratio(text));
  if (request.ratios.empty()) request.ratios.push_back(cost_ratios().front());
  const auto add = [&](std::vector<Entrant> families) {
    for (Entrant& family : families) {
      const auto same = [&](const Entrant& given) { return given.name == family.name; };
      if (std::none_of(request.entrants.begin(), request.entrants.end(), same)) request.entrants.push_back(std::move(family));
    }
  };
  if (!asked.alone) add(all_families());
  const auto has_head = [](const CostRatio& ratio) { return ratio.head > 0; };
  if (!asked.alone && std::any_of(request.ratios.begin(), request.ratios.end(), has_head)) add(all_cut_vocabularies());
  request.clusters = std::move(asked.clusters);
  if (request.clusters.empty()) add_default_clusters(request);
  if (request.clusters == std::vector<std::string>{"none"}) request.clusters.clear();
  return request;
}

}  // namespace panpipe::study
