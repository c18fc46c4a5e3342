// The largest sizes of a schedule. Actions are counted in 32 bits and a row is a vector: these limits are far beyond any machine
// and keep a mistyped number from exhausting memory.
#pragma once

namespace panpipe {

constexpr int kMaxRanks = 100'000, kMaxMicrobatches = 1'000'000;
constexpr long long kMaxActions = 200'000'000;

}  // namespace panpipe
