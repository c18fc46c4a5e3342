// Horizontal bars, stacked where there are several parts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/page/chart.hpp"
#include "costmodel/page/plots.hpp"
#include "costmodel/picture/markup.hpp"

namespace panpipe::page {
namespace {

constexpr double kRow = 24, kThick = 15;  // pixels

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
  Axis names;
  for (auto bar = plot.bars.rbegin(); bar != plot.bars.rend(); ++bar) names.categories.push_back(bar->name);  // the first on top
  for (const Bar& bar : plot.bars) {
    Stack stack;
    for (const double value : bar.values)
      if (std::isfinite(value)) stack.push(value);
    ends.insert(ends.end(), {stack.negative, stack.positive});
  }
  Axis value = plot.value;
  value.kind = AxisKind::FromZero;
  Chart chart(value, ends, names, {}, kRow * static_cast<double>(std::max<std::size_t>(plot.bars.size(), 1)));
  for (std::size_t row = 0; row < plot.bars.size(); ++row) {
    const Bar& bar = plot.bars[row];
    const double middle = chart.y().at(static_cast<double>(plot.bars.size() - 1 - row));
    Stack stack;
    for (std::size_t part = 0; part < bar.values.size(); ++part) {
      if (!std::isfinite(bar.values[part])) {
        ++chart.left_out;
        continue;
      }
      const auto [from, to] = stack.push(bar.values[part]);
      if (from == to) continue;
      chart.add(fmt::format("<rect class=\"b f{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>\n",
                            colour_of(plot.colours, part), px(chart.x().at(from)), px(middle - kThick / 2),
                            px(chart.x().at(to) - chart.x().at(from)), px(kThick), hint_element(hint_of(bar, plot.parts, part))));
    }
  }
  return chart.figure(plot.title, plot.parts, true, plot.colours);
}

}  // namespace panpipe::page
