// The cost of a whole training run: time, GPU hours, money, energy, and the share of time spent training. Plain arithmetic on a
// predicted step and the `run:` section of the scenario (docs/run-costs.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.hpp"
#include "base/run_quantities.hpp"

namespace panpipe {

// The amount of training and its conditions: `run:` of a scenario, read and completed.
struct RunRequest {
  enum class Counted { Tokens, Samples, Steps };
  enum class FailingPart { Gpu, Node };

  Counted counted = Counted::Tokens;
  double amount = 0;

  // Per hour of a GPU, for each of the cluster's device types; empty: no price. All in one currency.
  std::vector<double> prices;
  std::string currency;
  std::string price_origin;  // "2.95 USD, nebius, 2026-05-18"; for people

  struct Checkpoint {
    std::optional<Duration> time;        // training stops for this long at each checkpoint; or
    std::optional<Bandwidth> bandwidth;  // of the storage, all writers together
    std::optional<Bytes> size;           // of the checkpoint; default: weights and optimizer state
    std::optional<Duration> interval;    // training time between checkpoints; default: the best for the failures
  };
  std::optional<Checkpoint> checkpoint;

  struct Failures {
    Duration mtbf{0};  // of one part
    FailingPart part = FailingPart::Gpu;
    Duration restart{0};  // from the failure until training resumes
  };
  std::optional<Failures> failures;  // stated only with a checkpoint

  struct PowerUse {
    std::vector<Power> gpu;  // per GPU, for each of the cluster's device types
    double share = 1;        // share of it drawn while training
    Power node{0};           // of a node without its GPUs
    double pue = 1;          // data centre's power over that of its computers
  };
  std::optional<PowerUse> power;  // if absent and no power is published for the devices, no energy is computed
  std::optional<double> carbon;   // grams of CO2 equivalent per kWh
};

std::string_view name_of(RunRequest::Counted counted);  // "tokens", "samples", "steps": the key

// The machine of the run. `gpus` has one count per device type of the cluster.
struct RunMachine {
  std::vector<double> gpus;
  double nodes = 1;
};

// A predicted step.
struct RunStep {
  Duration time{0};
  double samples = 0;
  double tokens = 0;            // 0: the model reads no tokens
  double checkpoint_bytes = 0;  // weights and optimizer state of the whole model, once; 0: unknown
};

struct RunCost {
  RunRequest::Counted counted = RunRequest::Counted::Tokens;
  double amount = 0;
  double steps = 0;
  double time_s = 0;  // wall time, with checkpoints and failures if stated
  double gpus = 0;    // GPUs paid for: all of the cluster
  double gpu_hours = 0;
  std::optional<double> goodput;  // share of the wall time in which training progresses
  std::optional<double> checkpoint_s, checkpoint_interval_s;
  std::optional<double> mtbf_s;  // of the whole run
  std::optional<double> cost;
  // For the quantiles of the step: one run in ten takes less, one more. Not stated without an interval of the step.
  std::optional<double> time_p10_s, time_p90_s, cost_p10, cost_p90;
  std::string currency, price_origin;
  std::string power_origin;  // "GPUs at 700 W, PUE 1.1"; for people
  std::optional<double> energy_kwh, carbon_kg;
};

// A fault of the request that only shows with the step: the key of `run:`, and the remedy.
struct RunFault {
  std::string key;  // "tokens", "checkpoint.interval"
  std::string message, help;
};

// Either a cost or a fault.
struct RunAnswer {
  std::optional<RunCost> cost;
  RunFault fault;
};
RunAnswer run_cost(const RunRequest& request, const RunMachine& machine, const RunStep& step);

}  // namespace panpipe
