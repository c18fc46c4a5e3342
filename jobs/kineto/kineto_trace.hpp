// A trace of PyTorch's profiler (Kineto: Chrome trace-event JSON, optionally gzipped): kernels by group, and collectives. It is
// read as a stream, and memory grows only with the number of kernels.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "jobs/kineto/kernel_groups.hpp"

namespace panpipe::jobs {

struct KernelSpan {
  double start_us = 0, end_us = 0;
  int device = 0;
  KernelGroup group{};
};

// Collectives of one kind, group size and message size. A collective's kernel includes the wait for the last rank, so the least
// duration is nearest to the collective's own time.
struct TracedCollectives {
  long long count = 0;
  double total_us = 0, least_us = 0;
};
// Kind, ranks (0: unknown), number of their nodes, bytes of the full tensor (0: unknown).
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
  int rank = -1, world = 0;  // from "distributedInfo"; -1, 0: unknown
  std::map<TracedForm, TracedCollectives> collectives;
  std::map<std::string, TracedName> names;  // kernels by name, at most 65,536 names
};

// `per_node`: GPUs per node, used to place the ranks of a group on nodes. Throws InputError for a missing file, invalid JSON, no
// events, no kernels, or more than the bounds in kineto_trace.cpp.
KinetoTrace read_kineto_trace(const std::string& path, int per_node);
// The same for text in memory.
KinetoTrace parse_kineto_trace(const std::string& text, const std::string& name, int per_node);

// The first `most` bytes of a gzipped file, unpacked; nullopt: it is not gzipped, or cannot be unpacked.
std::optional<std::string> unpacked_front(const std::string& path, std::size_t most);

// Times of a step on a device, averaged over steps and devices. Microseconds.
struct TraceSummary {
  int devices = 0, steps = 1;
  double step_us = 0;
  double group_us[kKernelGroups] = {};  // sums of kernels, which may overlap
  double busy_us = 0;                   // at least one kernel runs
  double exposed_us = 0;                // part of it with only communication
  double idle_us = 0;                   // no kernel runs
};

// `steps` 0: the number marked in the trace, else one.
TraceSummary summary_of(const KinetoTrace& trace, int steps);

}  // namespace panpipe::jobs
