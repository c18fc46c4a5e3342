// How long this process computed, and how long it waited for a core that others had.
#pragma once

namespace panpipe::exec {

struct CoreTime {
  double computed = 0, waited = 0;  // seconds, of all threads that there are
};

// From Linux's scheduler (Documentation/scheduler/sched-stats.rst); zeros where it does not count.
CoreTime core_time();

// The share of the time in which threads wanted a core that they waited for one.
double waited_between(const CoreTime& begin, const CoreTime& end);

}  // namespace panpipe::exec
