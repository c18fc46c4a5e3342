// The chain of actions and transfers that made the step as long as it is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "present/result/result_document.hpp"

namespace panpipe {

enum class PathPartKind : std::uint8_t {
  Pass,
  PassCollective,  // tensor-parallel collectives that passes wait for inside themselves
  Optimizer,
  Transfer,
  Held,     // a rank stands still until its own transfer is over
  Sharing,  // what transfers and collectives take beyond their time on idle links
  Reduction,
  Gathering,
  Copy,
  Replicas,  // a collective stands still until slower replicas are there
  Gap
};
const char* name_of(PathPartKind kind);  // "passes", "optimizer", ...

struct PathPart {
  PathPartKind kind{};
  std::int32_t device = 0;  // a transfer's: where it arrives, or where it holds
  std::string action;       // empty for gaps
  double start = 0, end = 0;
  double inside = 0;  // of it: a pass's PassCollective, a transfer's or collective's Sharing
};

// From the last end back to the start, each part by what let it start; in the order of time, without holes. A document does not
// hold dependencies: they follow from stages and microbatches. O(n log n).
//
// A predicted part starts at the very moment at which its cause ends: the action before on its lane, an input's arrival, a
// transfer that holds its sender (unless transfers are asynchronous), a collective or a copy back it waits for; a transfer starts
// with the end of the pass that made it, or in batches of its receiver's last one. In a measured step the cause is what ended
// last before, and what lies between is a gap.
std::vector<PathPart> critical_path(const ResultDocument& result);

// Time by kind. Adds up to the step.
std::map<PathPartKind, double> sums_of(const std::vector<PathPart>& path);

}  // namespace panpipe
