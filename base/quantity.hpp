// Units as types. A quantity holds one number in one fixed base unit, and only meaningful operators exist (Bytes / Bandwidth ->
// Duration, Flops / ComputeRate -> Duration). Use base() only at the border of a library.
//
// "GB" is 10^9 and "GiB" is 2^30, everywhere.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace panpipe {

template <class Tag, class Rep>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep base) : base_(base) {}
  constexpr Rep base() const { return base_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator-() const { return Quantity(-base_); }
  constexpr Quantity& operator+=(Quantity other) {
    base_ += other.base_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    base_ -= other.base_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.base_ * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.base_ * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.base_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.base_) / static_cast<double>(b.base_);
  }

 private:
  Rep base_{};
};

using Duration = Quantity<struct DurationTag, double>;  // seconds
using Ticks = Quantity<struct TicksTag, double>;  // whole picoseconds held in a double: sums are exact up to 2^53 ps = 2.5 h
using Bytes = Quantity<struct BytesTag, std::int64_t>;        // bytes
using Flops = Quantity<struct FlopsTag, double>;              // floating-point operations (a multiply-add is two)
using Bandwidth = Quantity<struct BandwidthTag, double>;      // bytes per second
using ComputeRate = Quantity<struct ComputeRateTag, double>;  // floating-point operations per second

constexpr Duration seconds(double v) { return Duration(v); }
// Divides because 1e6 is exact and 1e-6 is not: micros(5) is the double nearest to 5e-6, like "5 us" in a file.
constexpr Duration millis(double v) { return Duration(v / 1e3); }
constexpr Duration micros(double v) { return Duration(v / 1e6); }
constexpr Bytes bytes(std::int64_t v) { return Bytes(v); }
constexpr Bytes kib(std::int64_t v) { return Bytes(v << 10); }
constexpr Bytes mib(std::int64_t v) { return Bytes(v << 20); }
constexpr Bytes gib(std::int64_t v) { return Bytes(v << 30); }
constexpr Flops flops(double v) { return Flops(v); }
constexpr Bandwidth gb_per_s(double v) { return Bandwidth(v * 1e9); }
constexpr ComputeRate tflops_per_s(double v) { return ComputeRate(v * 1e12); }

constexpr Duration operator/(Bytes size, Bandwidth rate) { return Duration(static_cast<double>(size.base()) / rate.base()); }
constexpr Duration operator/(Flops work, ComputeRate rate) { return Duration(work.base() / rate.base()); }
constexpr Bandwidth operator/(Bytes size, Duration time) { return Bandwidth(static_cast<double>(size.base()) / time.base()); }
constexpr ComputeRate operator/(Flops work, Duration time) { return ComputeRate(work.base() / time.base()); }

// The nearest whole picosecond. Round once, when a time enters a table; sums after that are exact.
inline Ticks to_ticks(Duration time) { return Ticks(std::nearbyint(time.base() * 1e12)); }
constexpr Duration to_duration(Ticks ticks) { return Duration(ticks.base() * 1e-12); }

}  // namespace panpipe
