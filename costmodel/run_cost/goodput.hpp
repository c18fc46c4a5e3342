// The wall time of a run that fails now and then and restarts from its last checkpoint.
//
// Failures occur at random with a constant rate (a Poisson process), even while a checkpoint is written and while the run
// restarts. Source of all three formulas: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
// dumps", Future Generation Computer Systems 22 (2006); the first term of the interval, sqrt(2 C M), is J. W. Young's (CACM 17,
// 1974). Limits: docs/run-costs.md.
#pragma once

#include "base/quantity.hpp"

namespace panpipe {

struct CheckpointCosts {
  Duration interval{0};    // training time between two checkpoints; positive
  Duration checkpoint{0};  // time for which training stops at each
};

// Mean time between failures of `parts` independent parts with `mtbf` each, when any failure stops the run.
Duration mtbf_of_all(Duration mtbf, double parts);

// The training time between checkpoints of this length that minimises the run (Daly, eq. 37).
Duration best_checkpoint_interval(Duration checkpoint, Duration mtbf);

// Expected wall time without failures: training plus checkpoints.
Duration time_with_checkpoints(Duration training, const CheckpointCosts& costs);

// Expected wall time with failures (Daly, eq. 13): M e^(R/M) (e^((t+C)/M) - 1) T/t. An interval longer than the training is cut
// to it. Infinite if the run never progresses.
Duration time_with_failures(Duration training, const CheckpointCosts& costs, Duration restart, Duration mtbf);

}  // namespace panpipe
