// The cost of a run, as the lines that tables show below a step.
#pragma once

#include <string>

#include "costmodel/run_cost/rl_step.hpp"
#include "costmodel/run_cost/run_cost.hpp"

namespace panpipe {

// "run       1 T tokens in 238,419 steps: 12.3 d on 64 GPUs, 18,900 GPU hours", then the known ones of goodput, money and energy.
std::string run_lines(const RunCost& cost);

// "rl   rollouts 40 s on 16 GPUs and training 32 s on 64: an update every 41 s", then what waits, and the best division.
std::string rl_lines(const RlStep& step);

}  // namespace panpipe
