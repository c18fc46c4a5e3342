#include "costmodel/page/chart.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/picture/layout.hpp"
#include "costmodel/picture/markup.hpp"
#include "costmodel/picture/palette.hpp"

namespace panpipe::page {
namespace {

// Pixels. Names of categories longer than kLongName are cut; the hint has them whole.
constexpr double kTop = 10, kRight = 18, kFont = 11, kWidestNames = 240;
constexpr std::size_t kLongName = 36;

std::string shortened(const std::string& name) {
  if (name.size() <= kLongName) return name;
  std::size_t keep = kLongName - 1;
  while (keep > 0 && (static_cast<unsigned char>(name[keep]) & 0xC0) == 0x80) --keep;  // whole characters
  return name.substr(0, keep) + "…";
}

double widest(const std::vector<Tick>& ticks) {
  double width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_width(shortened(tick.text), kFont));
  return std::min(width, kWidestNames);
}

// Left of the plot area: what stands at the ticks, and the title, which runs upwards.
double left_margin(const Axis& y, const std::vector<double>& ys, double height) {
  return widest(AxisScale(y, ys, height, 0).ticks()) + (y.title.empty() ? 14 : 34);
}

bool slants(const Axis& x, double width) {
  double names = 0;
  for (const std::string& name : x.categories) names = std::max(names, text_width(shortened(name), kFont) + 8);
  return names * static_cast<double>(x.categories.size()) > width;
}

}  // namespace

Chart::Chart(const Axis& x, const std::vector<double>& xs, const Axis& y, const std::vector<double>& ys, double height)
    : x_axis_(x),
      y_axis_(y),
      left_(left_margin(y, ys, height)),
      bottom_(40),
      height_(height),
      slanted_(slants(x, kChartWidth - left_ - kRight)),
      x_(x, xs, left_, kChartWidth - kRight),
      y_(y, ys, kTop + height, kTop) {
  if (slanted_) bottom_ += 0.6 * widest(x_.ticks());
}

void Chart::mark(const Point& point) {
  if (!can_show(point)) {
    ++left_out;
    return;
  }
  const auto series = static_cast<std::size_t>(point.series);
  add(fmt::format("<path class=\"m {}{}\" d=\"{}\">{}</path>\n", point.hollow ? "h" : "f", series % kSeriesColours,
                  marker(series, x_.at(point.x), y_.at(point.y)), hint_element(point.hint)));
}

std::string Chart::axes() const {
  std::string text;
  const double right = kChartWidth - kRight, base = kTop + height_;
  for (const Tick& tick : x_.ticks()) {
    const std::string at = px(x_.at(tick.value));
    text += fmt::format("<path class=\"grid\" d=\"M{} {}V{}\"/>", at, px(kTop), px(base));
    text += slanted_ ? fmt::format("<text class=\"end\" transform=\"translate({} {}) rotate(-35)\">{}</text>\n", at,
                                   px(base + 14), escaped(shortened(tick.text)))
                     : fmt::format("<text class=\"mid\" x=\"{}\" y=\"{}\">{}</text>\n", at, px(base + 15),
                                   escaped(shortened(tick.text)));
  }
  for (const Tick& tick : y_.ticks())
    text += fmt::format("<path class=\"grid\" d=\"M{} {}H{}\"/><text class=\"end\" x=\"{}\" y=\"{}\">{}{}</text>\n", px(left_),
                        px(y_.at(tick.value)), px(right), px(left_ - 6), px(y_.at(tick.value) + 4), escaped(shortened(tick.text)),
                        shortened(tick.text) == tick.text ? "" : hint_element(tick.text));
  text += fmt::format("<path class=\"axis\" d=\"M{} {}V{}H{}\"/>\n", px(left_), px(kTop), px(base), px(right));
  if (!x_axis_.title.empty())
    text += fmt::format("<text class=\"mid soft\" x=\"{}\" y=\"{}\">{}</text>\n", px((left_ + right) / 2), px(base + bottom_ - 6),
                        escaped(x_axis_.title));
  if (!y_axis_.title.empty())
    text += fmt::format("<text class=\"mid soft\" transform=\"translate(12 {}) rotate(-90)\">{}</text>\n", px(kTop + height_ / 2),
                        escaped(y_axis_.title));
  return text;
}

std::string Chart::figure(const std::string& title, const std::vector<std::string>& names, bool bars,
                          const std::vector<int>& colours) const {
  const double height = kTop + height_ + bottom_;
  std::string caption = escaped(title);
  if (left_out > 0)
    caption += fmt::format(" <span class=\"soft\">({} without a value that can be shown {} left out)</span>", left_out,
                           left_out == 1 ? "is" : "are");
  return fmt::format(
      "<figure><figcaption>{}</figcaption>{}<svg class=\"plot\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" role=\"img\" "
      "aria-label=\"{}\">\n{}{}</svg></figure>\n",
      caption, names.size() > 1 ? legend(names, bars, colours) : "", px(kChartWidth), px(height), px(kChartWidth), px(height),
      escaped(title), axes(), marks_);
}

// Four shapes; each round of colours starts with another one, so that 32 series look different.
std::string marker(std::size_t series, double x, double y) {
  const auto at = [&](double dx, double dy) { return fmt::format("{} {}", px(x + dx), px(y + dy)); };
  switch ((series + series / kSeriesColours) % 4) {
    case 0:
      return fmt::format("M{}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", at(-4, 0));
    case 1:
      return fmt::format("M{}h7v7h-7z", at(-3.5, -3.5));
    case 2:
      return fmt::format("M{}l4.6 8h-9.2z", at(0, -4.8));
    default:
      return fmt::format("M{}l4.8 4.8l-4.8 4.8l-4.8 -4.8z", at(0, -4.8));
  }
}

std::string hint_element(const std::string& hint) { return hint.empty() ? "" : fmt::format("<title>{}</title>", escaped(hint)); }

std::size_t colour_of(const std::vector<int>& colours, std::size_t i) {
  return (i < colours.size() ? static_cast<std::size_t>(colours[i]) : i) % kSeriesColours;
}

std::string legend(const std::vector<std::string>& names, bool bars, const std::vector<int>& colours) {
  std::string items;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string shape = bars ? "M1 1h10v10h-10z" : marker(i, 6, 6);
    items += fmt::format("<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><path class=\"f{}\" d=\"{}\"/></svg> {}</li>",
                         colour_of(colours, i), shape, escaped(names[i]));
  }
  return "<ul class=\"legend\">" + items + "</ul>";
}

}  // namespace panpipe::page
