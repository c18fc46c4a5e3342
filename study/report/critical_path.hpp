// The chain of actions and transfers that determines the step's length.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "present/result/read_result.hpp"

namespace panpipe::study {

enum class PathPartKind : std::uint8_t {
  Pass,
  PassCollective,  // tensor-parallel collectives that passes wait for inside themselves
  Optimizer,
  Transfer,
  Held,     // a rank waits until its own transfer has ended
  Sharing,  // time of transfers and collectives beyond that on idle links
  Reduction,
  Gathering,
  Copy,
  Replicas,  // a collective waits for slower replicas
  Gap
};
const char* name_of(PathPartKind kind);  // "passes", "optimizer", ...

struct PathPart {
  PathPartKind kind{};
  std::int32_t device = 0;  // of a transfer: where it arrives, or the device that it holds
  std::string action;       // empty for gaps
  double start = 0, end = 0;
  double inside = 0;  // the part of it that counts as PassCollective (pass) or Sharing (transfer, collective)
};

// The path is followed from the last end back to the start, each part leading to the one that let it start. The result is in
// order of time without holes. A document contains no dependencies, so they are derived from stages and microbatches. O(n log n).
//
// A predicted part starts exactly when its cause ends: the previous action on its lane, an input's arrival, a transfer that holds
// its sender (unless transfers are asynchronous), or a collective or reload that it waits for. A transfer starts with the end of
// the pass that made it, or in batches with the receiver's last one. In a measured step the cause is the last event that ended
// before, and the time between is a gap.
//
// Of steps in a row the path is that of the window in which their period is measured, which holds steps_of_path steps.
std::vector<PathPart> critical_path(const present::ResultDocument& result);
int steps_of_path(const present::ResultDocument& result);

// Time of a step by kind, in seconds. Adds up to the step.
std::map<PathPartKind, double> sums_of(const std::vector<PathPart>& path, int steps = 1);

}  // namespace panpipe::study
