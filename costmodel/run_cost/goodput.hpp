// How long a run takes that fails now and then and starts again from its last checkpoint.
//
// Failures come at random, at a constant rate (a Poisson process), also while a checkpoint is written and while the run starts
// again. Source of all three formulas: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
// dumps", Future Generation Computer Systems 22 (2006); the first term of the interval, sqrt(2 C M), is J. W. Young's (CACM 17,
// 1974). What they leave out: docs/run-costs.md.
#pragma once

#include "base/quantity.hpp"

namespace panpipe {

struct CheckpointCosts {
  Duration interval{0};    // of training between two checkpoints; positive
  Duration checkpoint{0};  // for which training stands still at each
};

// Mean time between failures of `parts` that fail apart from each other, where each has `mtbf`: any of them ends the run.
Duration mtbf_of_all(Duration mtbf, double parts);

// The interval of training between checkpoints of this length that makes a run shortest (Daly, eq. 37).
Duration best_checkpoint_interval(Duration checkpoint, Duration mtbf);

// Expected wall time of so much training, without failures: the checkpoints alone.
Duration time_with_checkpoints(Duration training, const CheckpointCosts& costs);

// Expected wall time with failures (Daly, eq. 13): M e^(R/M) (e^((t+C)/M) - 1) T/t. An interval longer than the training counts
// as the training. Infinite where the run does not get on at all.
Duration time_with_failures(Duration training, const CheckpointCosts& costs, Duration restart, Duration mtbf);

}  // namespace panpipe
