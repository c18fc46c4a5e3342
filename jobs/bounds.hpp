// The largest sizes of a job: far beyond any that ran, and small enough that products of the counts do not overflow.
#pragma once

#include "costmodel/workload/bounds.hpp"

namespace panpipe::jobs {

constexpr int kMostRanks = 1 << 16;  // processes, degrees and stages
constexpr int kMostSamples = 1 << 24;

}  // namespace panpipe::jobs
