// The largest sizes of a schedule, far beyond any machine. Actions are counted in 32 bits and a row is a vector; the limits keep
// a mistyped number from exhausting memory.
#pragma once

namespace panpipe {

constexpr int kMaxRanks = 100'000, kMaxMicrobatches = 1'000'000;
// An action takes 375 to 1100 bytes on its way through estimate and simulate (peak memory of GPT-2 on 4 and 8 ranks, 40,000
// microbatches, tensor degree 1 and 2), so this many fit into 8 GB.
constexpr double kMaxActions = 6e6;

}  // namespace panpipe
