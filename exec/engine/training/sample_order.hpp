// The order in which training takes the samples of its data: pass after pass, each in file order or in a shuffled order.
#pragma once

#include <cstdint>
#include <optional>

namespace panpipe::exec {

class SampleOrder {
 public:
  // `samples` >= 1 per pass. `seed`: for shuffled passes; nullopt: file order.
  explicit SampleOrder(std::int64_t samples, std::optional<std::uint64_t> seed = {});

  // The sample, from 0, at a position, which counts from the run's first sample. A pass takes each sample once. The result
  // depends only on seed and position, so a run can continue where another one stopped.
  std::int64_t at(std::int64_t position) const;
  std::int64_t samples() const { return samples_; }

 private:
  std::int64_t samples_;
  std::optional<std::uint64_t> seed_;
  int half_bits_ = 1;
};

}  // namespace panpipe::exec
