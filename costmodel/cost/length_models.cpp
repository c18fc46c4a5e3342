#include "costmodel/cost/length_models.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/scenario/dynamic_context.hpp"

namespace panpipe {

const CostModel& LengthModels::of(int length, const std::vector<Calibration>& calibrations) {
  const std::lock_guard lock(mutex_);
  PANPIPE_CHECK(length > 0 && at(length) < scenario_.lengths.shapes.size(), "a length of the scenario's");
  made_.resize(scenario_.lengths.shapes.size() - 1);
  auto& made = made_[at(length) - 1];
  if (made) return made->model;
  const SequenceShape& shape = scenario_.lengths.shapes[at(length)];
  Scenario changed = scenario_;
  changed.lengths = {};
  const Degrees degrees = degrees_of_length(scenario_, workload_.shape.degrees, length);
  changed.degrees.context = degrees.context;
  changed.degrees.data = degrees.data;
  changed.workload.sequence = shape.tokens();
  changed.samples = shape.packed();
  try {
    made = std::make_unique<Made>(std::move(changed), degrees, calibrations);
  } catch (const InputError& error) {
    throw fault_at(scenario_, "batch.lengths", error.diagnostics().front().message, error.diagnostics().front().help);
  }
  return made->model;
}

}  // namespace panpipe
