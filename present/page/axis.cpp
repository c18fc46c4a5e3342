#include "present/page/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "present/picture/picture_layout.hpp"

namespace panpipe::present {
namespace {

// Pixels between ticks, at least; a logarithmic axis narrower than this ratio gets evenly spaced ticks.
constexpr double kTickPixels = 60, kNarrowRatio = 4;
// Half of a double's range of exponents to both sides: quotients, differences and ticks beyond the ends stay finite and above 0.
constexpr double kLargest = 1e150, kSmallest = 1e-150;

std::string tick_text(double value) { return fmt::format("{:.10g}", value); }

// Mantissas that a logarithmic axis labels, by the number of its decades.
std::vector<double> mantissas(double decades) {
  if (decades <= 1.2) return {1, 1.5, 2, 3, 4, 5, 6, 8};
  if (decades <= 3.5) return {1, 2, 5};
  return {1};
}

}  // namespace

AxisScale::AxisScale(const Axis& axis, const std::vector<double>& values, double begin, double end)
    : logarithmic_(axis.kind == AxisKind::Log), begin_(begin), end_(end) {
  bool any = false;
  for (const double value : values) {
    if (!can_show(value)) continue;
    low_ = any ? std::min(low_, value) : value;
    high_ = any ? std::max(high_, value) : value;
    any = true;
  }
  if (!any) {
    low_ = logarithmic_ ? 1 : 0;
    high_ = logarithmic_ ? 10 : 1;
  }
  if (any && axis.ticks.size() > 1 && high_ > low_) {
    set_ticks(axis.ticks);
  } else if (logarithmic_ && high_ >= kNarrowRatio * low_) {
    set_logarithmic();
  } else {
    set_linear(std::abs(end - begin), axis.kind == AxisKind::FromZero);
  }
}

void AxisScale::set_linear(double pixels, bool from_zero) {
  if (from_zero) {
    low_ = std::min(low_, 0.0);
    high_ = std::max(high_, 0.0);
  }
  const double largest = std::max(std::abs(low_), std::abs(high_));
  if (high_ - low_ <= std::max(1e-12 * largest, kSmallest)) {  // one value: room to both sides
    const double room = largest <= kSmallest ? 1 : 0.1 * largest;
    if (low_ != 0 || !from_zero) low_ -= room;
    high_ += room;
  }
  const double step = round_step((high_ - low_) / std::max(2.0, pixels / kTickPixels));
  const double first = std::floor(low_ / step + 1e-9), last = std::ceil(high_ / step - 1e-9);
  for (double i = first; i <= last; ++i) {
    const double value = i * step;
    if (!logarithmic_ || value > 0) ticks_.push_back({value, tick_text(value)});
  }
  low_ = ticks_.front().value;
  high_ = ticks_.back().value;
  cut_ = low_ > 0;
}

void AxisScale::set_logarithmic() {
  const double decades = std::log10(high_ / low_);
  const std::vector<double> wanted = mantissas(decades);
  const int every = static_cast<int>(std::ceil(decades / 9));  // decades from tick to tick, where there are many
  const int first = static_cast<int>(std::floor(std::log10(low_) + 1e-9)), last = static_cast<int>(std::ceil(std::log10(high_)));
  for (int decade = first; decade <= last + every; decade += every)
    for (const double mantissa : wanted) {
      const double value = mantissa * std::pow(10, decade);
      ticks_.push_back({value, tick_text(value)});
    }
  // The last tick at or below everything, and the first at or above.
  while (ticks_.size() > 2 && ticks_[1].value <= low_ * (1 + 1e-9)) ticks_.erase(ticks_.begin());
  while (ticks_.size() > 2 && ticks_[ticks_.size() - 2].value >= high_ * (1 - 1e-9)) ticks_.pop_back();
  low_ = ticks_.front().value;
  high_ = ticks_.back().value;
}

// Those that lie too close to the one before are left out; the last value always has its tick.
void AxisScale::set_ticks(std::vector<double> wanted) {
  std::erase_if(wanted, [&](double value) { return !can_show(value) || value < low_ || value > high_; });
  std::sort(wanted.begin(), wanted.end());
  for (const double value : wanted) {
    const bool close = !ticks_.empty() && std::abs(at(value) - at(ticks_.back().value)) < kTickPixels / 2;
    if (close && value != wanted.back()) continue;
    if (close) ticks_.pop_back();
    ticks_.push_back({value, tick_text(value)});
  }
  cut_ = low_ > 0;
}

bool AxisScale::can_show(double value) const { return std::abs(value) <= kLargest && (!logarithmic_ || value >= kSmallest); }

double AxisScale::at(double value) const {
  const double share = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return begin_ + share * (end_ - begin_);
}

}  // namespace panpipe::present
