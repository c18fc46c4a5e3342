// The properties that determine a prediction's error. Predictions that agree in them are alike (docs/models/uncertainty.md).
#pragma once

#include <compare>
#include <string>

#include "costmodel/plan/plan.hpp"
#include "costmodel/prediction/step_terms.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

struct Likeness {
  std::string device;     // "A100-SXM": the chip and its board, without the memory size; several: "A100-SXM + H20"
  std::string choices;    // the framework's choices that affect a step most: "fused kernels, fused attention"
  std::string precision;  // "16 bit" for bf16 and fp16, else as in the scenario
  std::string parallel;   // "tensor + pipeline + data", "sharded data" under ZeRO 3, "one device"
  std::string framework;  // the preset's name; shown in lists, but like `schedule` not compared
  std::string schedule;
  std::string costs;  // "formulas", "profile" (measured units), "given" (measured layers, devices without rates)
  bool host_bound = false;

  auto operator<=>(const Likeness&) const = default;
};

// `step`: seconds.
Likeness likeness_of(const Scenario& scenario, const Plan& plan, const StepTerms& terms, double step);

// Likeness::costs, which is the same for all plans of a scenario.
std::string costs_alike(const Scenario& scenario);

// "A100-80G-SXM" -> "A100-SXM".
std::string chip_of(const std::string& device);

}  // namespace panpipe
