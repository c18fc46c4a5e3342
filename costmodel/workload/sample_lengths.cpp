#include "costmodel/workload/sample_lengths.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "costmodel/workload/operator_cost.hpp"

namespace panpipe {
namespace {

// Sum over the distribution of share x f(length).
template <class F>
double expected(const SampleLengths& samples, F f) {
  double sum = 0;
  for (std::size_t k = 0; k < samples.lengths.size(); ++k) sum += samples.shares[k] * f(samples.lengths[k]);
  return sum;
}

double pairs(AttentionShape shape, double length) {
  shape.query_length = shape.key_length = static_cast<std::int64_t>(length);
  return length * length * shape.attended_share();
}

}  // namespace

double SampleLengths::mean() const {
  return expected(*this, [](double length) { return length; });
}

double SampleLengths::of_a_token() const {
  return expected(*this, [](double length) { return length * length; }) / mean();
}

int SequenceShape::tokens() const { return std::accumulate(samples.begin(), samples.end(), 0); }

std::int64_t SequenceShape::squares() const {
  std::int64_t sum = 0;
  for (const std::int64_t length : samples) sum += length * length;
  return sum;
}

SampleLengths SequenceShape::packed() const {
  SampleLengths lengths;
  if (samples.size() < 2) return lengths;
  lengths.lengths.assign(samples.begin(), samples.end());
  lengths.shares.assign(samples.size(), 1.0 / static_cast<double>(samples.size()));
  return lengths;
}

MicrobatchLengths lengths_of(const std::vector<SequenceShape>& microbatches) {
  const auto longer = [](const SequenceShape& a, const SequenceShape& b) {
    const auto key = [](const SequenceShape& shape) { return std::tuple(shape.tokens(), shape.squares(), shape.samples); };
    return key(a) > key(b);
  };
  MicrobatchLengths lengths{microbatches, {}};
  std::vector<SequenceShape>& shapes = lengths.shapes;
  std::sort(shapes.begin(), shapes.end(), longer);
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  for (const SequenceShape& each : microbatches)
    lengths.of.push_back(static_cast<int>(std::lower_bound(shapes.begin(), shapes.end(), each, longer) - shapes.begin()));
  return lengths;
}

double packed_share(const AttentionShape& shape, const SampleLengths& samples) {
  if (!samples.any()) return 1;
  const auto whole = static_cast<double>(shape.key_length);
  const auto cut = [&](double length) { return std::min(length, whole); };
  const double each = expected(samples, [&](double length) { return pairs(shape, cut(length)); }) /
                      expected(samples, [&](double length) { return cut(length); });
  return std::min(1.0, each / (pairs(shape, whole) / whole));
}

}  // namespace panpipe
