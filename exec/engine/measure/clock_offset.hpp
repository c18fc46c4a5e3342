// One time axis for all ranks: how far a rank's steady clock is from rank 0's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// At `at` (this rank's clock, seconds) this rank's clock showed `offset` more than rank 0's, give or take `error`.
struct ClockReading {
  double at = 0, offset = 0, error = 0;
};

// Between two readings the offset is taken to change evenly; beyond them it stays.
double offset_at(const ClockReading& first, const ClockReading& last, double at);

// What tells hosts apart: processes of one boot share the steady clock.
std::string this_boot();

// Called by all ranks together. Ranks of rank 0's boot get an offset of exactly 0. For the others the round trip of least
// duration of 32 counts: its half is the error. `now` is this rank's clock in seconds.
ClockReading read_clock_offset(Transport& transport, const std::string& boot, const std::function<double()>& now,
                               Clock::duration deadline);

}  // namespace panpipe::exec
