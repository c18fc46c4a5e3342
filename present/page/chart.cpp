#include "present/page/chart.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "present/picture/markup.hpp"
#include "present/picture/palette.hpp"
#include "present/picture/picture_layout.hpp"

namespace panpipe::present {
namespace {

// Pixels: right of and under the plot area; of the area that outlines are drawn in, and that ticks are counted for.
constexpr double kRight = 26, kBottom = 42, kArea = 720;
constexpr std::size_t kLongestLabel = 44;  // bytes

double widest(const std::vector<Tick>& ticks) {
  double width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_width(tick.text, kChartFont));
  return width;
}

// Left of the plot area: what stands at the ticks, and the title, which runs upwards.
double left_margin(const AxisScale& y, const std::string& title) { return widest(y.ticks()) + (title.empty() ? 14 : 36); }

// Heights are compared; along x things have places.
std::string title_of(const Axis& axis, const AxisScale& scale) {
  if (axis.title.empty() || !scale.is_cut()) return axis.title;
  return fmt::format("{} (the axis starts at {})", axis.title, scale.ticks().front().text);
}

}  // namespace

Chart::Chart(const Axis& x, const std::vector<double>& xs, const Axis& y, const std::vector<double>& ys, double height)
    : Chart(x, xs, height, 0, kRight) {
  y_axis_ = y;
  y_ = AxisScale(y, ys, kTop + height, kTop);
  left_ = left_margin(*y_, y.title);
}

Chart::Chart(const Axis& x, const std::vector<double>& xs, double height, double left, double right)
    : x_axis_(x), left_(left), right_(right), height_(height), x_(x, xs, 0, kArea) {}

std::string Chart::along(const AxisScale& scale, double x) { return px(scale.at(x)); }

std::string Chart::across(double x) const { return fmt::format("{:.4g}%", 100 * x_.at(x) / kArea); }

void Chart::drawn(std::size_t series) {
  if (drawn_.size() <= series) drawn_.resize(series + 1, false);
  drawn_[series] = true;
}

// Over its mark, where no front runs: to the right, or to the left where the plot ends.
std::string Chart::label_at(const Point& point) const {
  const bool left = x_.at(point.x) > 0.6 * kArea;
  return fmt::format(
      "<svg class=\"at\" x=\"{}\" y=\"{}\" width=\"1\" height=\"1\"><text class=\"label{}\" x=\"{}\" y=\"-6\">{}</text></svg>\n",
      across(point.x), px(y_->at(point.y)), left ? " end" : "", left ? -7 : 7, escaped(shortened(point.label, kLongestLabel)));
}

void Chart::mark(const Point& point) {
  if (!can_show(point)) {
    ++left_out;
    return;
  }
  const auto series = static_cast<std::size_t>(point.series);
  drawn(series);
  add(fmt::format(
      "<svg class=\"at\" x=\"{}\" y=\"{}\" width=\"1\" height=\"1\"><path class=\"m {}{}\" d=\"{}\">{}</path></svg>\n",
      across(point.x), px(y_->at(point.y)), point.hollow ? "h" : "f", series % kSeriesColours, marker(series, 0, 0),
      hint_element(point.hint)));
  if (!point.label.empty()) add(label_at(point));
}

void Chart::outline(const std::string& classes, const std::string& path, const std::string& hint) {
  outlines_ += fmt::format("<path class=\"{}\" d=\"{}\">{}</path>\n", classes, path, hint_element(hint));
}

// If there are many ticks and the area is narrow, every second name is left out.
std::string Chart::axes() const {
  std::string text;
  const double base = kTop + height_;
  bool second = false;
  for (const Tick& tick : x_.ticks()) {
    const std::string at = across(tick.value);
    text += fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/>", at, px(kTop), px(base));
    text += fmt::format("<text class=\"mid{}\" x=\"{}\" y=\"{}\">{}</text>\n", second ? " second" : "", at, px(base + 16),
                        escaped(tick.text));
    second = !second && x_.ticks().size() > 6;
  }
  if (y_)
    for (const Tick& tick : y_->ticks())
      text += fmt::format(
          "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\"/><text class=\"end\" x=\"-6\" y=\"{1}\">{2}</text>\n",
          px(y_->at(tick.value)), px(y_->at(tick.value) + 4), escaped(tick.text));
  text += fmt::format(
      "<line class=\"axis\" x1=\"0\" x2=\"0\" y1=\"{0}\" y2=\"{1}\"/><line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"{1}\" "
      "y2=\"{1}\"/>\n",
      px(kTop), px(base));
  if (!x_axis_.title.empty())
    text +=
        fmt::format("<text class=\"mid soft\" x=\"50%\" y=\"{}\">{}</text>\n", px(base + kBottom - 6), escaped(x_axis_.title));
  if (y_ && !y_axis_.title.empty())
    text += fmt::format("<text class=\"mid soft\" transform=\"translate({} {}) rotate(-90)\">{}</text>\n", px(14 - left_),
                        px(kTop + height_ / 2), escaped(title_of(y_axis_, *y_)));
  return text;
}

std::string Chart::figure(const std::string& title, const std::vector<std::string>& names, bool bars,
                          const std::vector<int>& colours) const {
  const double height = kTop + height_ + kBottom;
  std::string caption = escaped(title);
  if (left_out > 0)
    caption += fmt::format(" <span class=\"soft\">({} without a value that can be shown {} left out)</span>", left_out,
                           left_out == 1 ? "is" : "are");
  const std::string stretched =
      outlines_.empty() ? ""
                        : fmt::format(
                              "<svg class=\"outlines\" viewBox=\"0 0 {0} {1}\" preserveAspectRatio=\"none\" width=\"100%\" "
                              "height=\"{1}\">\n{2}</svg>\n",
                              px(kArea), px(height), outlines_);
  return fmt::format(
      "<figure><figcaption>{}</figcaption>{}<div style=\"padding:0 {}px 0 {}px\"><svg class=\"plot\" width=\"100%\" "
      "height=\"{}\" "
      "role=\"img\" aria-label=\"{}\">\n{}{}{}</svg></div></figure>\n",
      caption, names.size() > 1 ? legend(names, bars, colours, &drawn_) : "", px(right_), px(left_), px(height), escaped(title),
      axes(), stretched, marks_);
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

std::string shortened(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  std::size_t keep = most - 1;
  while (keep > 0 && (static_cast<unsigned char>(name[keep]) & 0xC0) == 0x80) --keep;
  return name.substr(0, keep) + "…";
}

std::string legend(const std::vector<std::string>& names, bool bars, const std::vector<int>& colours,
                   const std::vector<bool>* drawn) {
  std::string items;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (drawn != nullptr && (i >= drawn->size() || !(*drawn)[i])) continue;
    const std::string shape = bars ? "M1 1h10v10h-10z" : marker(i, 6, 6);
    items += fmt::format("<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><path class=\"f{}\" d=\"{}\"/></svg> {}</li>",
                         colour_of(colours, i), shape, escaped(names[i]));
  }
  return "<ul class=\"legend\">" + items + "</ul>";
}

}  // namespace panpipe::present
