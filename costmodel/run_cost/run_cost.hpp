// What a whole training run takes: time, GPU hours, money, energy, and how much of the time is training. Plain arithmetic on a
// predicted step and on what the scenario states under `run:` (docs/run-costs.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.hpp"
#include "base/run_quantities.hpp"

namespace panpipe {

// How much is trained, and under which conditions: `run:` of a scenario, read and completed.
struct RunRequest {
  enum class Counted { Tokens, Samples, Steps };
  enum class FailingPart { Gpu, Node };

  Counted counted = Counted::Tokens;
  double amount = 0;

  // Of a GPU of each of the cluster's device types, for an hour; empty: no price. All in one currency.
  std::vector<double> prices;
  std::string currency;
  std::string price_origin;  // "2.95 USD, nebius, 2026-05-18"; for people

  struct Checkpoint {
    std::optional<Duration> time;        // training stands still at each; or
    std::optional<Bandwidth> bandwidth;  // of the storage, all writers together
    std::optional<Bytes> size;           // of what is written; not stated: weights and optimizer state
    std::optional<Duration> interval;    // of training between two; not stated: the best for the failures
  };
  std::optional<Checkpoint> checkpoint;

  struct Failures {
    Duration mtbf{0};  // of one part
    FailingPart part = FailingPart::Gpu;
    Duration restart{0};  // from the failure until training goes on
  };
  std::optional<Failures> failures;  // stated with a checkpoint only

  struct PowerUse {
    std::vector<Power> gpu;  // of a GPU of each of the cluster's device types
    double share = 1;        // of it that is drawn while training
    Power node{0};           // of a node beside its GPUs
    double pue = 1;          // of the data centre: its power over that of its computers
  };
  std::optional<PowerUse> power;  // not stated and no power published for the devices: no energy
  std::optional<double> carbon;   // grams of CO2 equivalent for a kWh
};

std::string_view name_of(RunRequest::Counted counted);  // "tokens", "samples", "steps": the key

// What the run is made on. `gpus` as the cluster's device types.
struct RunMachine {
  std::vector<double> gpus;
  double nodes = 1;
};

// A predicted step.
struct RunStep {
  Duration time{0};
  double samples = 0;
  double tokens = 0;            // 0: the model reads none
  double checkpoint_bytes = 0;  // weights and optimizer state of the whole model, once; 0: not known
};

struct RunCost {
  RunRequest::Counted counted = RunRequest::Counted::Tokens;
  double amount = 0;
  double steps = 0;
  double time_s = 0;  // wall time, with checkpoints and failures where they are stated
  double gpus = 0;    // that are paid for: all of the cluster
  double gpu_hours = 0;
  std::optional<double> goodput;  // share of the wall time in which training gets on
  std::optional<double> checkpoint_s, checkpoint_interval_s;
  std::optional<double> mtbf_s;  // of the whole run
  std::optional<double> cost;
  std::string currency, price_origin;
  std::string power_origin;  // "GPUs at 700 W, PUE 1.1"; for people
  std::optional<double> energy_kwh, carbon_kg;
};

// A fault of the request that shows with the step: which key of `run:` it is about, and what to do.
struct RunFault {
  std::string key;  // "tokens", "checkpoint.interval"
  std::string message, help;
};

// Either an answer or a fault.
struct RunAnswer {
  std::optional<RunCost> cost;
  RunFault fault;
};
RunAnswer run_cost(const RunRequest& request, const RunMachine& machine, const RunStep& step);

}  // namespace panpipe
