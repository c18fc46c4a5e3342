#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "present/picture/schedule_picture.hpp"
#include "python/binding/arrow.hpp"
#include "python/binding/bindings.hpp"
#include "schedule/limits.hpp"
#include "schedule/schedule_request.hpp"
#include "schedule/text/csv_cell.hpp"
#include "schedule/transfer_report.hpp"

namespace panpipe::python {
namespace {

// An order with what is known of it under the costs that it was asked with.
struct JudgedSchedule {
  Schedule order;
  PassCosts costs;
  std::vector<ScheduleProblem> problems;
  std::optional<ScheduleEvaluation> evaluation;  // of a legal one
  std::string braid;                             // as asked; empty: the default

  const ScheduleEvaluation& evaluated() const {
    if (!evaluation) throw NoAnswer(order.name + " is not legal: " + problems.front().message);
    return *evaluation;
  }
};

std::shared_ptr<JudgedSchedule> judged(const std::string& name, std::optional<int> ranks, std::optional<int> microbatches,
                                       ScheduleOptions options, const std::string& costs, const std::string& csv) {
  const nb::gil_scoped_release no_gil;
  auto made = std::make_shared<JudgedSchedule>();
  made->costs = parse_pass_costs(costs);
  if (const auto braid = options.find("braid"); braid != options.end()) made->braid = braid->second;
  const bool split = take_braid(options);
  made->order = csv.empty() ? obtain_schedule({name, ranks, microbatches}, options, made->costs) : read_schedule_csv(csv, name);
  made->problems = check_schedule(made->order);
  if (made->problems.empty()) made->evaluation = evaluate(made->order, made->costs, split);
  return made;
}

// One that was pickled: the bound and the notes of the search or the family are no part of the rows.
std::shared_ptr<JudgedSchedule> restored(const std::string& name, const std::string& csv, const std::string& costs,
                                         const std::string& braid, std::optional<double> lower_bound,
                                         std::vector<std::string> notes) {
  ScheduleOptions options;
  if (!braid.empty()) options["braid"] = braid;
  std::shared_ptr<JudgedSchedule> made = judged(name, std::nullopt, std::nullopt, std::move(options), costs, csv);
  made->order.lower_bound = lower_bound;
  made->order.notes = std::move(notes);
  return made;
}

nb::list problems_of(const JudgedSchedule& schedule) {
  nb::list list;
  for (const ScheduleProblem& problem : schedule.problems)
    list.append(nb::make_tuple(problem.rank, problem.position, problem.action, problem.message));
  return list;
}

// A row per action, in the order of the ranks.
Table actions_of(const JudgedSchedule& schedule) {
  const ScheduleEvaluation& evaluation = schedule.evaluated();
  std::vector<Column> columns = {{"rank", kInt32},  {"action", kText},  {"microbatch", kInt32},
                                 {"stage", kInt32}, {"start", kDouble}, {"end", kDouble}};
  const auto row = [&](int rank, const Action& done, const std::pair<double, double>& times) {
    columns[0].add(rank);
    columns[1].add(to_text(done));
    columns[2].add(std::int32_t{done.microbatch});
    columns[3].add(std::int32_t{done.stage});
    columns[4].add(times.first);
    columns[5].add(times.second);
  };
  for (std::size_t r = 0; r < schedule.order.order.size(); ++r)
    for (std::size_t i = 0; i < schedule.order.order[r].size(); ++i)
      row(static_cast<int>(r), schedule.order.order[r][i], evaluation.times[r][i]);
  return Table(std::move(columns));
}

std::string semantics_of(const JudgedSchedule& schedule, const std::string& semantics) {
  schedule.evaluated();
  return report_transfers(schedule.order, schedule.costs, parse_semantics(semantics)).json;
}

// The actions of a cell of the CSV: (stage, action, microbatch, slice), -1 where it has none.
std::vector<std::tuple<int, std::string, int, int>> actions_of_cell(const std::string& text) {
  std::vector<CellAction> actions;
  CellFault fault;
  if (!parse_cell(text, actions, fault)) throw InputError(fault.message, fault.help);
  std::vector<std::tuple<int, std::string, int, int>> list;
  for (const CellAction& one : actions)
    list.emplace_back(one.action.stage, std::string(name_of(one.action.kind)), one.action.microbatch, one.action.split);
  return list;
}

nb::list families() {
  nb::list list;
  for (const ScheduleFamily& family : schedule_families()) {
    nb::dict options;
    for (const auto& [key, fallback] : family.options) options[std::string(key).c_str()] = std::string(fallback);
    list.append(nb::make_tuple(std::string(family.name), std::string(family.summary), std::string(family.source), options));
  }
  return list;
}

}  // namespace

void bind_schedules(nb::module_& module) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<JudgedSchedule>(module, "JudgedSchedule")
      .def_prop_ro("name", [](const JudgedSchedule& s) { return s.order.name; })
      .def_prop_ro("ranks", [](const JudgedSchedule& s) { return s.order.ranks; })
      .def_prop_ro("microbatches", [](const JudgedSchedule& s) { return s.order.microbatches; })
      .def_prop_ro("stages", [](const JudgedSchedule& s) { return s.order.stages; })
      .def_prop_ro("legal", [](const JudgedSchedule& s) { return s.problems.empty(); })
      .def_prop_ro("lower_bound", [](const JudgedSchedule& s) { return s.order.lower_bound; })
      .def_prop_ro("braid", [](const JudgedSchedule& s) { return s.braid; })
      .def_prop_ro("notes", [](const JudgedSchedule& s) { return s.order.notes; })
      .def_prop_ro("makespan", [](const JudgedSchedule& s) { return s.evaluated().makespan; })
      .def_prop_ro("bubble_step", [](const JudgedSchedule& s) { return s.evaluated().bubble_step; })
      .def_prop_ro("bubble_span", [](const JudgedSchedule& s) { return s.evaluated().bubble_span; })
      .def_prop_ro("peak_activations", [](const JudgedSchedule& s) { return s.evaluated().peak_activations; })
      .def("problems", &problems_of)
      .def("actions", &actions_of, Released())
      .def("semantics", &semantics_of, Released())
      .def(
          "csv", [](const JudgedSchedule& s, bool torch) { return to_csv(s.order, torch); }, Released())
      .def(
          "document", [](const JudgedSchedule& s) { return to_json(s.order, s.problems, s.evaluation); }, Released())
      .def(
          "svg", [](const JudgedSchedule& s) { return present::to_svg(present::picture_of(s.order, s.evaluated())); }, Released())
      .def(
          "drawing",
          [](const JudgedSchedule& s, int width) {
            return s.evaluation ? draw(s.order, *s.evaluation, width, false) : grid(s.order, s.problems);
          },
          Released());
  module.def("schedule", &judged, nb::arg("name"), nb::arg("ranks").none(), nb::arg("microbatches").none(), nb::arg("options"),
             nb::arg("costs"), nb::arg("csv"));
  module.def("restored_schedule", &restored, nb::arg("name"), nb::arg("csv"), nb::arg("costs"), nb::arg("braid"),
             nb::arg("lower_bound").none(), nb::arg("notes"));
  module.def("actions_of_cell", &actions_of_cell);
  module.def("check_costs", [](const std::string& costs) { parse_pass_costs(costs); });
  module.attr("most_actions") = kMaxActions;
  module.def("schedule_families", &families);
}

}  // namespace panpipe::python
