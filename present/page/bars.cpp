// Horizontal bars, stacked where there are several parts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "present/page/chart.hpp"
#include "present/page/plots.hpp"
#include "present/picture/markup.hpp"
#include "present/picture/picture_layout.hpp"

namespace panpipe::present {
namespace {

// Pixels: of a row, of a name that has a line of its own above its bar, of a bar; names up to kSideName wide stand left of
// theirs.
constexpr double kRow = 24, kNameRow = 17, kThick = 15, kSideName = 150;
constexpr std::size_t kLongName = 64;  // longer ones are cut; the hint has them whole

// Ends of a bar's parts: what is negative grows to the left, the rest to the right.
struct Stack {
  double negative = 0, positive = 0;
  std::pair<double, double> push(double value) {
    double& end = value < 0 ? negative : positive;
    const double begin = end;
    end += value;
    return {std::min(begin, end), std::max(begin, end)};
  }
};

std::string hint_of(const Bar& bar, const std::vector<std::string>& parts, std::size_t part) {
  std::string text = bar.name;
  if (parts.size() > 1) text += ", " + parts[part];
  text += fmt::format(": {:.4g}", bar.values[part]);
  return bar.hint.empty() ? text : text + "\n" + bar.hint;
}

}  // namespace

std::string to_html(const Bars& plot) {
  std::vector<double> ends;
  double names = 0, labels = 0;
  for (const Bar& bar : plot.bars) {
    Stack stack;
    for (const double value : bar.values)
      if (std::isfinite(value)) stack.push(value);
    ends.insert(ends.end(), {stack.negative, stack.positive});
    if (!bar.values.empty()) names = std::max(names, text_width(bar.name, kChartFont));
    labels = std::max(labels, text_width(bar.label, kChartFont));
  }
  const bool above = names > kSideName;
  double height = 0;
  for (const Bar& bar : plot.bars) height += above && !bar.values.empty() ? kNameRow + kRow : kRow;
  Axis value = plot.value;
  value.kind = AxisKind::FromZero;
  Chart chart(value, ends, std::max(height, kRow), above ? 12 : names + 14, std::max(26.0, labels + 14));
  double y = Chart::top();  // of the row
  const auto name_at = [&](const Bar& bar, const char* classes, double x) {
    const std::string shown = shortened(bar.name, kLongName);
    chart.add(fmt::format("<text{} x=\"{}\" y=\"{}\">{}{}</text>\n", classes, px(x), px(y + kRow / 2 + 4), escaped(shown),
                          shown == bar.name ? "" : hint_element(bar.name)));
  };
  for (const Bar& bar : plot.bars) {
    if (bar.values.empty()) {
      name_at(bar, " class=\"head\"", above ? 0 : -names - 8);
      y += kRow;
      continue;
    }
    if (above) {
      name_at(bar, "", 4);
      y += kNameRow;
    } else {
      name_at(bar, " class=\"end\"", -6);
    }
    Stack stack;
    for (std::size_t part = 0; part < bar.values.size(); ++part) {
      if (!std::isfinite(bar.values[part])) {
        ++chart.left_out;
        continue;
      }
      const auto [from, to] = stack.push(bar.values[part]);
      if (from == to) continue;
      chart.drawn(part);
      chart.add(fmt::format("<rect class=\"b {}{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>\n",
                            bar.hollow ? "h" : "f", colour_of(plot.colours, part), chart.across(from),
                            px(y + (kRow - kThick) / 2), chart.across(to - from + chart.x().low()), px(kThick),
                            hint_element(hint_of(bar, plot.parts, part))));
    }
    if (!bar.label.empty())
      chart.add(fmt::format("<text class=\"label\" x=\"{}\" dx=\"6\" y=\"{}\">{}</text>\n", chart.across(stack.positive),
                            px(y + kRow / 2 + 4), escaped(bar.label)));
    y += kRow;
  }
  return chart.figure(plot.title, plot.parts, true, plot.colours);
}

}  // namespace panpipe::present
