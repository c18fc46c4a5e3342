// The parts of the module; each file binds its own.
#pragma once

#include <nanobind/nanobind.h>

namespace panpipe::python {

namespace nb = nanobind;

void bind_arena(nb::module_& module);
void bind_planning(nb::module_& module);
void bind_predictions(nb::module_& module);
void bind_documents(nb::module_& module);
void bind_measured(nb::module_& module);
void bind_runs(nb::module_& module);
void bind_schedules(nb::module_& module);

}  // namespace panpipe::python
