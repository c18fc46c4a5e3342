// Shared by all plots: the frame with its axes, the legend, marks with hints.
//
// x positions are percentages of the plot area's width and y positions are pixels. The browser stretches the area to the page,
// while letters and marks keep their size.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "present/page/axis.hpp"

namespace panpipe::present {

constexpr double kChartFont = 12;  // pixels, the same as in the style sheet

class Chart {
 public:
  // Axes that cover the values given, in a plot area of `height` pixels.
  Chart(const Axis& x, const std::vector<double>& xs, const Axis& y, const std::vector<double>& ys, double height);
  // Rows instead of a y axis; `left` and `right` are margins in pixels.
  Chart(const Axis& x, const std::vector<double>& xs, double height, double left, double right);

  const AxisScale& x() const { return x_; }
  const AxisScale& y() const { return *y_; }  // not with rows
  bool can_show(const Point& point) const { return x_.can_show(point.x) && y_->can_show(point.y); }

  // Adds markup inside the plot area, in drawing order.
  void add(const std::string& markup) { marks_ += markup; }
  void mark(const Point& point);  // a point in the colour and shape of its series
  // A path of (x, y) in the coordinates of along() and y(). It lies under all marks and stretches with the area.
  void outline(const std::string& classes, const std::string& path, const std::string& hint = "");
  static std::string along(const AxisScale& scale, double x);  // for an outline
  std::string across(double x) const;                          // for all other marks: "37.5%"
  void drawn(std::size_t series);                              // adds the series to the legend
  std::size_t left_out = 0;                                    // number of points that could not be shown

  // The whole figure. `names` is the legend, in the order of the series; with `bars` its keys are boxes.
  std::string figure(const std::string& title, const std::vector<std::string>& names, bool bars = false,
                     const std::vector<int>& colours = {}) const;

  static constexpr double top() { return kTop; }

 private:
  static constexpr double kTop = 10;  // pixels above the plot area

  std::string axes() const;
  std::string label_at(const Point& point) const;

  Axis x_axis_, y_axis_;
  double left_, right_, height_;  // margins; height of the plot area
  AxisScale x_;
  std::optional<AxisScale> y_;
  std::vector<bool> drawn_;
  std::string outlines_, marks_;
};

// A marker of the series' shape around (x, y), as the d attribute of a path.
std::string marker(std::size_t series, double x, double y);
// "<title>...</title>"; empty without a hint.
std::string hint_element(const std::string& hint);
// Keys and names of the series in one line, as HTML: of all, or only of those set in `drawn`.
std::string legend(const std::vector<std::string>& names, bool bars, const std::vector<int>& colours = {},
                   const std::vector<bool>* drawn = nullptr);
// Palette index of the i-th part.
std::size_t colour_of(const std::vector<int>& colours, std::size_t i);
// Shortens a name to `most` characters; a shortened name ends in "…".
std::string shortened(const std::string& name, std::size_t most);

}  // namespace panpipe::present
