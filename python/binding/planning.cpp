// plan and sweep.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <tuple>
#include <utility>

#include "app/evidence/read_evidence.hpp"
#include "app/largest.hpp"
#include "app/plan_question.hpp"
#include "app/sweep.hpp"
#include "base/error.hpp"
#include "base/stop.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "python/binding/bindings.hpp"
#include "python/binding/interruptible.hpp"
#include "python/binding/scenario_input.hpp"
#include "study/cell_answer/cell_answer.hpp"
#include "study/sweep/sweep.hpp"

namespace panpipe::python {
namespace {

using Overrides = std::vector<std::string>;

// Document and the best plan that the engines can run, as plan.yaml; empty where there is none.
using Planned = std::pair<std::string, std::string>;

Planned planned_of(const planner::Answer& answer, const Experiment& experiment) {
  const auto plan = app::plan_file_of(answer, experiment);
  return {planner::to_json(answer), plan ? plan->yaml : ""};
}

app::SearchRequest request_of(const std::string& method, const std::string& objective, const std::string& trainer, int threads,
                              std::size_t candidates, bool open) {
  app::SearchRequest request{method, objective, trainer, threads, candidates, open};
  app::check_search_request(request);
  return request;
}

planner::SearchOptions options_until(const std::atomic<bool>& halt, const app::SearchRequest& request) {
  planner::SearchOptions options = app::search_options_of(request);
  options.stop = &halt;
  return options;
}

app::PlanQuestion question_of(const ScenarioInput& input, const Overrides& overrides, const app::SearchRequest& request,
                              app::SizeOptions sizes = {}) {
  return {[&input] { return input.document(); }, input.name(), overrides, request, std::move(sizes)};
}

Planned planned(nb::object scenario, const Overrides& overrides, const app::SearchRequest& request, double time_limit,
                const StopToken* stop) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const StopScope scope(stop != nullptr ? &stop->asked() : nullptr);
  Planned found;
  interruptibly(
      [&](const std::atomic<bool>& halt) {
        const app::PlanQuestion question = question_of(input, overrides, request);
        const Experiment experiment(question.searched());
        const planner::Answer answer = question.answer(experiment, options_until(halt, request));
        throw_if_stopped();
        found = planned_of(answer, experiment);
      },
      time_limit);
  return found;
}

// Key, document (panpipe-sizes/1), GPUs of the best size (0: none), and of each size its GPUs, its plan or why there is none.
using PlannedSize = std::tuple<int, Planned, std::string>;
std::tuple<std::string, std::string, int, std::vector<PlannedSize>> planned_sizes(nb::object scenario, const Overrides& overrides,
                                                                                  const app::SearchRequest& request,
                                                                                  std::vector<int> gpus, std::vector<int> nodes,
                                                                                  std::string tokens, std::string deadline,
                                                                                  std::string budget, double time_limit) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  app::SizesAnswer answer;
  interruptibly(
      [&](const std::atomic<bool>& halt) {
        const app::PlanQuestion question =
            question_of(input, overrides, request,
                        {std::move(gpus), std::move(nodes), std::move(tokens), std::move(deadline), std::move(budget)});
        const auto search = [&](const Experiment& experiment, const app::SearchRequest& of_step) {
          return question.found(experiment, options_until(halt, of_step));
        };
        answer = app::answer_sizes(question, search, {});
      },
      time_limit);
  std::vector<PlannedSize> of_size;
  for (const study::TriedSize& size : answer.tried) {
    const auto found = answer.found.find(size.nodes);
    of_size.emplace_back(
        size.gpus, found != answer.found.end() ? planned_of(found->second.second, *found->second.first) : Planned(), size.reason);
  }
  const int best = answer.best < 0 ? 0 : answer.tried[answer.best].gpus;
  return {answer.key.key, study::to_json(answer.request, answer.tried), best, std::move(of_size)};
}

// panpipe-largest/1, of the scenario's own plan.
std::string largest(nb::object scenario, const Overrides& overrides, const std::string& plan, const std::string& of,
                    std::vector<std::string> devices) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const auto load = [&](const Overrides& more) {
    Overrides all = overrides;
    all.insert(all.end(), more.begin(), more.end());
    return input.load(all, plan);
  };
  std::string text;
  interruptibly([&](const auto&) {
    text = study::to_json(app::answer_largest({of, std::move(devices)}, {input.name(), load, plan, {}}, {}));
  });
  return text;
}

// The same of the best plan for each value.
std::string planned_largest(nb::object scenario, const Overrides& overrides, const app::SearchRequest& request,
                            const std::string& of, std::vector<std::string> devices, double time_limit) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  std::string text;
  interruptibly(
      [&](const std::atomic<bool>& halt) {
        const app::PlanQuestion question = question_of(input, overrides, request);
        text = study::to_json(app::answer_largest({of, std::move(devices)}, app::largest_plans(question, halt), {}));
      },
      time_limit);
  return text;
}

// The key that states how large the cluster is, and each size that is asked for: its GPUs, and its setting.
std::pair<std::string, std::vector<std::pair<int, std::string>>> sizes(nb::object scenario, const Overrides& overrides,
                                                                       std::vector<int> gpus, std::vector<int> nodes) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const study::SizeKey key = study::size_key(input.load(overrides));
  std::vector<std::pair<int, std::string>> found;
  for (const int size : app::sizes_of({std::move(gpus), std::move(nodes), "", "", ""}, key))
    found.emplace_back(size * key.devices, app::size_setting(key, size));
  return {key.key, std::move(found)};
}

// Assignments that the grid calls by a name ("schedule=mine"), each with the full text that a scenario is given.
using Meanings = std::map<std::string, std::string>;

Overrides meant(Overrides overrides, const Meanings& meanings) {
  for (std::string& assignment : overrides)
    if (const auto found = meanings.find(assignment); found != meanings.end()) assignment = found->second;
  return overrides;
}

// Ranks and microbatches that an order must have to fit the scenario. `stated`: not those that a search would change.
std::pair<int, int> pipeline_sizes(nb::object scenario, const Overrides& overrides, bool stated) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const Scenario read = input.load(overrides);
  if (stated && is_open(read, "parallel.pipeline"))
    throw InputError("the search chooses parallel.pipeline, and an order is made for a number of ranks",
                     "state it: parallel: {pipeline: 4}");
  return {read.degrees.pipeline, read.degrees.microbatches};
}

study::SweepOptions options_of(const ScenarioInput& input, const study::SweepGrid& grid, const Meanings& meanings) {
  study::SweepOptions options;
  options.load = [&](const auto& overrides) { study::check_scenario_of_cell(input.load(meant(overrides, meanings))); };
  options.answer = [&](const auto& overrides) {
    return study::answer_of_scenario(grid, app::with_evidence(input.load(meant(overrides, meanings))));
  };
  return options;
}

// The grid as a document; InputError where it cannot be meant.
std::pair<std::string, std::size_t> sweep_grid(nb::object scenario, const Overrides& overrides,
                                               const std::vector<std::pair<std::string, std::vector<std::string>>>& axes,
                                               const std::string& engine, const std::string& method, const Meanings& meanings) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  app::SweepRequest request{input.name(), engine, method, overrides, {}};
  for (const auto& [key, values] : axes) request.axes.push_back({key, values});
  const study::SweepGrid grid = app::grid_of(std::move(request));
  study::check_sweep(grid, options_of(input, grid, meanings));
  return {study::to_json(grid), grid.size()};
}

// A cell as a line of JSON.
// `refusal`: why the cell has no order, empty where it has.
std::string sweep_cell(nb::object scenario, const std::string& grid_text, std::size_t index, const Meanings& meanings,
                       const std::string& refusal, const StopToken* stop) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const StopScope scope(stop != nullptr ? &stop->asked() : nullptr);
  const study::SweepGrid grid = study::parse_grid(grid_text, "grid");
  study::FileHashes hashes;
  study::SweepOptions options = options_of(input, grid, meanings);
  if (!refusal.empty()) options.answer = [&](const auto&) -> study::CellAnswer { throw InputError(refusal); };
  return study::to_line(study::answer_cell(grid, index, options, hashes));
}

// Document, page, table.
std::tuple<std::string, std::string, std::string> sweep_texts(const std::string& grid_text,
                                                              const std::vector<std::string>& lines) {
  const study::SweepGrid grid = study::parse_grid(grid_text, "grid");
  std::vector<study::SweepCell> cells;
  for (const std::string& line : lines) {
    auto cell = study::parse_line(line);
    if (!cell) throw InputError("a worker answered with something else than a cell: " + line.substr(0, 80));
    cells.push_back(std::move(*cell));
  }
  return {study::to_json(grid, cells, ""), study::to_page(grid, cells, ""), study::to_table(grid, cells)};
}

}  // namespace

void bind_planning(nb::module_& module) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  [[maybe_unused]] const nb::class_<app::SearchRequest> type(module, "SearchRequest");
  module.def("plan_request", &request_of);
  module.def("plan", &planned, nb::arg("scenario"), nb::arg("overrides"), nb::arg("request"), nb::arg("time_limit"),
             nb::arg("stop") = nb::none());
  module.def("plan_sizes", &planned_sizes);
  module.def("largest", &largest);
  module.def("plan_largest", &planned_largest);
  module.def("pipeline_sizes", &pipeline_sizes, nb::arg("scenario"), nb::arg("overrides"), nb::arg("stated") = false);
  module.def("sizes", &sizes);
  module.def("sweep_grid", &sweep_grid, nb::arg("scenario"), nb::arg("overrides"), nb::arg("axes"), nb::arg("engine"),
             nb::arg("method"), nb::arg("meanings") = Meanings());
  module.def("sweep_cell", &sweep_cell, nb::arg("scenario"), nb::arg("grid"), nb::arg("index"), nb::arg("meanings") = Meanings(),
             nb::arg("refusal") = "", nb::arg("stop") = nb::none());
  module.def("sweep_texts", &sweep_texts, Released());
}

}  // namespace panpipe::python
