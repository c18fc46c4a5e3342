// What every plot shares: the frame with its axes, the legend, marks with hints.
//
// Along x things stand at shares of the plot area's width, in per cent, and along y at pixels: the browser stretches the area to
// the page, and letters and marks keep their size.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "present/page/axis.hpp"

namespace panpipe::page {

constexpr double kChartFont = 12;  // pixels, as in the style sheet

class Chart {
 public:
  // Axes that cover the values given, in a plot area of `height` pixels.
  Chart(const Axis& x, const std::vector<double>& xs, const Axis& y, const std::vector<double>& ys, double height);
  // Rows in place of the y axis; `left` and `right` are the margins in pixels.
  Chart(const Axis& x, const std::vector<double>& xs, double height, double left, double right);

  const AxisScale& x() const { return x_; }
  const AxisScale& y() const { return *y_; }  // not with rows
  bool can_show(const Point& point) const { return x_.can_show(point.x) && y_->can_show(point.y); }

  // Inside the plot area, in order.
  void add(const std::string& markup) { marks_ += markup; }
  void mark(const Point& point);  // a point in the colour and shape of its series
  // A path of (x, y) in the coordinates of along() and y(); it lies under all marks and is stretched with the area.
  void outline(const std::string& classes, const std::string& path, const std::string& hint = "");
  static std::string along(const AxisScale& scale, double x);  // of an outline
  std::string across(double x) const;                          // of anything else: "37.5%"
  void drawn(std::size_t series);                              // it will be in the legend
  std::size_t left_out = 0;                                    // points that could not be shown

  // The whole figure. `names`: legend, in the order of the series; `bars`: its keys are boxes.
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
// "<title>...</title>", nothing when empty.
std::string hint_element(const std::string& hint);
// Keys and names of the series in one line, as HTML; of all, or of those that `drawn` says.
std::string legend(const std::vector<std::string>& names, bool bars, const std::vector<int>& colours = {},
                   const std::vector<bool>* drawn = nullptr);
// Of the i-th part: its index in the palette.
std::size_t colour_of(const std::vector<int>& colours, std::size_t i);
// A name that fits, in whole characters; where it is cut it ends in "…".
std::string shortened(const std::string& name, std::size_t most);

}  // namespace panpipe::page
