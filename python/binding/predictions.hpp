// Binds check, estimate and simulate, with their results.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/prediction/estimated_step.hpp"
#include "present/result/result_plan.hpp"
#include "python/binding/arrow.hpp"
#include "python/binding/scenario_cache.hpp"

namespace panpipe::python {

// A predicted step together with its inputs.
class PredictedStep {
 public:
  PredictedStep(std::shared_ptr<const CachedScenario> kept, EstimatedStep step, double wall_s, double engine_s);
  PredictedStep(std::shared_ptr<const CachedScenario> kept, Prediction prediction, double wall_s);

  const Metrics& metrics() const { return metrics_; }
  TimelineKind kind() const { return kind_; }
  double engine_s() const { return engine_s_; }
  nb::dict metrics_dict() const;  // like `metrics` of the result document
  std::string document(bool with_timeline) const;
  Table timeline_table() const;
  std::string svg() const;
  std::string page() const;
  std::string text() const;  // the table that the command prints
  std::string plan_yaml() const;
  std::string scenario_yaml() const;
  std::string trace() const;

 private:
  const Timeline& timeline() const;  // made on first use
  present::ResultPlan described() const;

  std::shared_ptr<const CachedScenario> kept_;
  TimelineKind kind_;
  Metrics metrics_;
  TaskTimes times_;
  double wall_s_ = 0, engine_s_ = 0;
  mutable std::once_flag once_;
  mutable std::optional<Timeline> timeline_;
};

void bind_predictions(nb::module_& module);

}  // namespace panpipe::python
