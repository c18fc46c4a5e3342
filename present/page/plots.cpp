#include "present/page/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "present/page/chart.hpp"
#include "present/picture/markup.hpp"
#include "present/picture/palette.hpp"

namespace panpipe::present {
namespace {

constexpr double kHeight = 380, kLinesHeight = 280;

struct Values {
  std::vector<double> x, y;
  void add(const Point& point) {
    x.push_back(point.x);
    y.push_back(point.y);
  }
};

// A point of an outline in pixels.
std::string place(const Chart& chart, double x, double y) { return Chart::along(chart.x(), x) + " " + px(chart.y().at(y)); }

// The line y = x over the whole plot, and the area between y = (1 - band) x and y = (1 + band) x. Straight on both kinds of axis
// that measured-against-predicted plots use, because the two axes are alike.
void draw_band(Chart& chart, double band) {
  const double low = chart.x().low(), high = chart.x().high();
  const auto at = [&](double x, double factor) {
    // The line is cut at the frame.
    double to_x = x, to_y = x * factor;
    if (to_y > high) to_x = high / factor, to_y = high;
    if (to_y < low && low > 0) to_x = low / factor, to_y = low;
    return place(chart, to_x, to_y);
  };
  const std::string corner = place(chart, high, high), start = place(chart, low, low);
  chart.outline("band",
                fmt::format("M{}L{}L{}L{}L{}L{}Z", at(low, 1 + band), at(high, 1 + band), corner, at(high, 1 - band),
                            at(low, 1 - band), start),
                fmt::format("within {:g} %", 100 * band));
  chart.outline("diagonal", fmt::format("M{}L{}", start, corner));
}

// A staircase: a plan with no more memory than here needs at least this long.
void draw_front(Chart& chart, const std::vector<Point>& points) {
  std::string path;
  for (const std::size_t i : pareto_front(points)) {
    if (!chart.can_show(points[i])) continue;
    const std::string x = Chart::along(chart.x(), points[i].x), y = px(chart.y().at(points[i].y));
    path += path.empty() ? fmt::format("M{} {}", x, y) : fmt::format("H{}V{}", x, y);
  }
  if (!path.empty()) chart.outline("front", path, "Pareto front");
}

}  // namespace

std::vector<std::size_t> pareto_front(const std::vector<Point>& points) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!points[i].hollow && std::isfinite(points[i].x) && std::isfinite(points[i].y)) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return points[a].x != points[b].x ? points[a].x < points[b].x : points[a].y < points[b].y;
  });
  std::vector<std::size_t> front;
  for (const std::size_t i : order)
    if (front.empty() || points[i].y < points[front.back()].y) front.push_back(i);
  return front;
}

std::string to_html(const Scatter& plot) {
  Values values;
  for (const Point& point : plot.points) values.add(point);
  if (plot.band > 0) {  // both axes cover both
    values.x.insert(values.x.end(), values.y.begin(), values.y.end());
    values.y = values.x;
  }
  Chart chart(plot.x, values.x, plot.y, values.y, plot.band > 0 ? 520 : kHeight);
  if (plot.band > 0) draw_band(chart, plot.band);
  if (plot.front) draw_front(chart, plot.points);
  for (const Point& point : plot.points) chart.mark(point);
  return chart.figure(plot.title, plot.series);
}

std::string to_html(const Lines& plot) {
  Values values;
  std::vector<std::string> names;
  for (const PlotLine& line : plot.lines) {
    names.push_back(line.name);
    for (const Point& point : line.points) values.add(point);
  }
  Chart chart(plot.x, values.x, plot.y, values.y, kLinesHeight);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    std::string path;
    bool pen_down = false;
    for (const Point& point : plot.lines[i].points) {
      const bool shown = chart.can_show(point);
      if (shown) path.append(pen_down ? "L" : "M").append(place(chart, point.x, point.y));
      pen_down = shown;
    }
    if (!path.empty()) chart.outline(fmt::format("line l{} d{}", i % kSeriesColours, i / kSeriesColours % 4), path);
    for (Point point : plot.lines[i].points) {
      point.series = static_cast<int>(i);
      chart.mark(point);
    }
  }
  return chart.figure(plot.title, names);
}

}  // namespace panpipe::present
