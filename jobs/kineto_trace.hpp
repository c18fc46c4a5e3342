// A trace of PyTorch's profiler (Kineto: Chrome trace-event JSON, also gzipped): kernels by group, and collectives. It is read as
// a stream; what is kept grows with the kernels alone.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "jobs/kernel_groups.hpp"

namespace panpipe::jobs {

struct KernelSpan {
  double start_us = 0, end_us = 0;
  int device = 0;
  KernelGroup group{};
};

// One kind over groups of one size, of one message size. The duration of a collective's kernel holds the wait for the last rank,
// so the least is the nearest to the collective's own time.
struct TracedCollectives {
  long long count = 0;
  double total_us = 0, least_us = 0;
};
// Kind, ranks (0: not told), nodes that they lie on, bytes of the full tensor (0: not told).
using TracedForm = std::tuple<KernelGroup, int, int, long long>;

struct TracedName {
  KernelGroup group{};
  long long count = 0;
  double total_us = 0;
};

struct KinetoTrace {
  std::vector<KernelSpan> kernels;  // by device, then start
  int steps = 0;                    // "ProfilerStep#N" marks; 0: none
  double first_step_us = 0, last_step_us = 0;
  int rank = -1, world = 0;  // "distributedInfo"; -1, 0: not told
  std::map<TracedForm, TracedCollectives> collectives;
  std::map<std::string, TracedName> names;  // kernels by name, the first 65,536 of them
};

// `per_node`: GPUs of a node, by which the ranks of a group lie on nodes. Throws InputError: a missing file, no JSON, no events,
// no kernels, more than the bounds in kineto_trace.cpp.
KinetoTrace read_kineto_trace(const std::string& path, int per_node);
// The same of a text in memory.
KinetoTrace parse_kineto_trace(const std::string& text, const std::string& name, int per_node);

// Times of a step on a device, the mean over steps and devices.
struct TraceSummary {
  int devices = 0, steps = 1;
  double step_us = 0;
  double group_us[kKernelGroups] = {};  // sums of kernels, which may run side by side
  double busy_us = 0;                   // at least one kernel runs
  double exposed_us = 0;                // of it, communication alone
  double idle_us = 0;                   // none
};

// `steps` 0: as the trace marks them, else one.
TraceSummary summary_of(const KinetoTrace& trace, int steps);

}  // namespace panpipe::jobs
