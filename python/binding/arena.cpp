// The arena of schedules.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "app/arena.hpp"
#include "python/binding/bindings.hpp"
#include "study/arena/arena.hpp"

namespace panpipe::python {
namespace {

// A name as the command line takes it, or a name and orders as CSV: one, or one for each ratio.
using GivenEntrant = std::pair<std::string, std::vector<std::string>>;
using Sizes = std::pair<std::optional<int>, std::optional<int>>;

study::Entrant entrant_of(const GivenEntrant& given) {
  const auto& [name, orders] = given;
  if (orders.empty()) return study::read_entrant(name);
  study::Entrant entrant{name, "", {}, std::nullopt};
  if (orders.size() == 1) {
    entrant.order = read_schedule_csv(orders.front(), name);
  } else {
    for (const std::string& order : orders) entrant.by_ratio.push_back(read_schedule_csv(order, name));
  }
  return entrant;
}

using Texts = std::tuple<std::string, std::string, std::string>;  // document, table, page

Texts judge(const std::vector<GivenEntrant>& entrants, const Sizes& sizes, const std::vector<std::string>& ratios,
            const std::vector<std::string>& clusters, bool alone, const std::string& backend, int threads) {
  app::ArenaRequest request{{{}, sizes.first, sizes.second, ratios, clusters, alone}, backend, threads};
  for (const GivenEntrant& given : entrants) request.entrants.push_back(entrant_of(given));
  const study::Arena judged = app::judge(std::move(request));
  return {to_json(judged), to_table(judged), to_page(judged)};
}

// Name, I and W relative to F.
std::tuple<std::string, double, double> cost_ratio(const std::string& text) {
  const study::CostRatio ratio = text.empty() ? study::cost_ratios().front() : study::read_cost_ratio(text);
  return {ratio.name, ratio.I, ratio.W};
}

}  // namespace

void bind_arena(nb::module_& module) {
  module.def("arena", &judge, nb::call_guard<nb::gil_scoped_release>());
  nb::list defaults;
  for (const char* name : study::kDefaultClusters) defaults.append(name);
  module.attr("arena_clusters") = nb::tuple(defaults);
  module.def("cost_ratio", &cost_ratio);
}

}  // namespace panpipe::python
