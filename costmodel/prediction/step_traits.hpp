// What of a predicted step its uncertainty depends on.
#pragma once

#include <string>

#include "costmodel/plan/plan.hpp"
#include "costmodel/prediction/sensitivity.hpp"
#include "costmodel/prediction/step_class.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

struct StepTraits {
  Sensitivity sensitivity{};
  StepClass of{};
  std::string device;     // "A100-SXM": the chip and its board, without the memory size; several: "A100-SXM + H20"
  std::string framework;  // the preset's name
  std::string precision;  // "16 bit" for bf16 and fp16, else as in the scenario
  std::string parallel;   // "tensor + pipeline + data", "sharded data" under ZeRO 3, "one device"
  std::string schedule;   // "none" without a pipeline; steps of one block may differ in it
  std::string machine;    // "A100-80G-SXM": the types of device as their files name them
  std::string wiring;     // "switch", of neighbours in a node (PathClass); empty for a step without two devices in a node

  // Steps of one source that share a deviation.
  bool same_block(const StepTraits& other) const {
    return of == other.of && device == other.device && framework == other.framework && precision == other.precision &&
           parallel == other.parallel;
  }
};

// `sensitivity`: of the step by formulas. Where units were measured it is reduced to what a profile leaves open.
StepTraits traits_of(const Scenario& scenario, const Plan& plan, const Sensitivity& sensitivity);

// True if times are given (measured layers, devices without rates): no errors are known for these.
bool has_given_costs(const Scenario& scenario);

// "A100-80G-SXM" -> "A100-SXM".
std::string chip_of(const std::string& device);
// The chips of a cluster, joined by " + ".
std::string chips_of(const Cluster& cluster);

}  // namespace panpipe
