// In which order training takes the samples of its data: one pass over them after the other, each in the order of the file, or in
// an order of its own.
#pragma once

#include <cstdint>
#include <optional>

namespace panpipe::exec {

class SampleOrder {
 public:
  // `samples` >= 1 in a pass. `seed`: of shuffled passes.
  explicit SampleOrder(std::int64_t samples, std::optional<std::uint64_t> seed = {});

  // The sample, from 0, that stands at a position, which counts from the run's first sample. A pass takes each sample once. The
  // answer depends on seed and position alone, so that a run goes on wherever another one stopped.
  std::int64_t at(std::int64_t position) const;
  std::int64_t samples() const { return samples_; }

 private:
  std::int64_t samples_;
  std::optional<std::uint64_t> seed_;
  int half_bits_ = 1;
};

}  // namespace panpipe::exec
