#include "costmodel/workload/sample_lengths.hpp"

#include <algorithm>

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

double packed_share(const AttentionShape& shape, const SampleLengths& samples) {
  if (!samples.any()) return 1;
  const auto whole = static_cast<double>(shape.key_length);
  const auto cut = [&](double length) { return std::min(length, whole); };
  const double each = expected(samples, [&](double length) { return pairs(shape, cut(length)); }) /
                      expected(samples, [&](double length) { return cut(length); });
  return std::min(1.0, each / (pairs(shape, whole) / whole));
}

}  // namespace panpipe
