#include "exec/engine/training/sample_order.hpp"

#include "base/error.hpp"
#include "exec/engine/mixed_bits.hpp"

namespace panpipe::exec {
namespace {

// Four suffice against an adversary (Luby and Rackoff 1988) where halves are wide; those of a small file are not.
constexpr int kRounds = 8;

// A Feistel network permutes the numbers of 2 x half_bits bits, for any function in its rounds.
std::uint64_t permuted(std::uint64_t value, int half_bits, std::uint64_t key) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits, right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (mixed_bits(right ^ mixed_bits(key + static_cast<std::uint64_t>(round))) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

SampleOrder::SampleOrder(std::int64_t samples, std::optional<std::uint64_t> seed) : samples_(samples), seed_(seed) {
  PANPIPE_CHECK(samples >= 1, "a pass over data takes samples");
  while (half_bits_ < 31 && (std::int64_t{1} << (2 * half_bits_)) < samples_) ++half_bits_;
}

// A permutation that is computed takes no memory, where a table of a corpus takes 8 bytes a sample on every rank. The network's
// numbers are fewer than four times the samples: walking along the cycle until one of them is a sample (Black and Rogaway 2002)
// takes less than four steps on average.
std::int64_t SampleOrder::at(std::int64_t position) const {
  const std::int64_t pass = position / samples_, index = position % samples_;
  if (!seed_) return index;
  const std::uint64_t key = mixed_bits(*seed_ ^ mixed_bits(static_cast<std::uint64_t>(pass)));
  auto value = static_cast<std::uint64_t>(index);
  do value = permuted(value, half_bits_, key);
  while (value >= static_cast<std::uint64_t>(samples_));
  return static_cast<std::int64_t>(value);
}

}  // namespace panpipe::exec
