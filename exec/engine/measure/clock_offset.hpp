// A common time axis: the offset of a rank's steady clock from rank 0's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// At `at` (this rank's clock, seconds) this rank's clock was ahead of rank 0's by `offset`, plus or minus `error`.
struct ClockReading {
  double at = 0, offset = 0, error = 0;
};

// The offset changes linearly between two readings and is constant beyond them.
double offset_at(const ClockReading& first, const ClockReading& last, double at);

// An identifier of this host's boot: processes of one boot share the steady clock.
std::string this_boot();

// All ranks call this together. Ranks of rank 0's boot get an offset of exactly 0. The others use the shortest of 32 round trips;
// the error is half of it. `now` is this rank's clock in seconds.
ClockReading read_clock_offset(Transport& transport, const std::string& boot, const std::function<double()>& now,
                               Clock::duration deadline);

}  // namespace panpipe::exec
