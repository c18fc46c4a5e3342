// Arguments of a run on this machine.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "python/binding/bindings.hpp"
#include "python/binding/scenario_input.hpp"

namespace panpipe::python {
namespace {

// The scenario as YAML that loads again from anywhere; samples of a microbatch, microbatches of all replicas.
std::tuple<std::string, int, int> scenario_to_run(nb::object scenario, const std::vector<std::string>& overrides) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const Scenario read = input.load(overrides);
  return {resolved_text(read), read.degrees.micro, read.degrees.microbatches * read.degrees.data};
}

}  // namespace

void bind_runs(nb::module_& module) { module.def("scenario_to_run", &scenario_to_run); }

}  // namespace panpipe::python
