#include "jobs/log/smoothed_bar.hpp"

namespace panpipe::jobs {
namespace {

constexpr double kSmoothing = 0.3, kKept = 1 - kSmoothing;
// Half a hundredth of each of two means is up to 0.028 s of the time between them.
constexpr double kLongEnough = 0.005 * (1 + kKept) / kSmoothing / 0.01;

}  // namespace

double SmoothedBar::seconds(long long number, double shown) {
  if (number != number_ + 1) steps_ = 1, time_ = shown;  // redraws are missing: those before may have shown the same
  const double before = time_;
  steps_ = kSmoothing + kKept * steps_;
  time_ = shown * steps_;
  const double since = (time_ - kKept * before) / kSmoothing;
  number_ = number;
  return shown < kLongEnough || since <= 0 ? shown : since;
}

}  // namespace panpipe::jobs
