// Maps values to pixels and chooses round ticks.
#pragma once

#include <string>
#include <vector>

#include "present/page/plots.hpp"

namespace panpipe::present {

struct Tick {
  double value = 0;
  std::string text;
};

class AxisScale {
 public:
  // Covers the values that the axis can show, ends on ticks, and runs from pixel `begin` to pixel `end` (which is smaller for a y
  // axis that grows upwards). Without values it covers 0 to 1 (1 to 10 when logarithmic).
  AxisScale(const Axis& axis, const std::vector<double>& values, double begin, double end);

  bool can_show(double value) const;
  double at(double value) const;  // pixels
  double low() const { return low_; }
  double high() const { return high_; }
  const std::vector<Tick>& ticks() const { return ticks_; }
  bool is_cut() const { return cut_; }  // linear and not starting at 0: lengths on it are not proportional to values

 private:
  void set_linear(double pixels, bool from_zero);
  void set_logarithmic();
  void set_ticks(std::vector<double> wanted);

  bool logarithmic_ = false, cut_ = false;
  double low_ = 0, high_ = 1, begin_, end_;
  std::vector<Tick> ticks_;
};

}  // namespace panpipe::present
