// The memory sweep as SVG: bubble over memory, with the found orders as a line with dots and the impossible region as an area
// below the bound.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/memory/memory_sweep.hpp"

namespace panpipe {
namespace {

constexpr double kWidth = 760, kHeight = 440, kLeft = 70, kRight = 30, kTop = 60, kBottom = 60;

// Neutral in light and dark; hues of Okabe and Ito (Color Universal Design, 2008). Attributes repeat the colours for viewers
// without style sheets.
constexpr const char* kStyle =
    "<style>text{font-family:sans-serif;font-size:13px}@media (prefers-color-scheme: dark){.paper{fill:#16181d}.ink{fill:#e6e6e6}"
    ".axis{stroke:#e6e6e6}.grid{stroke:#3a3e47}.found{stroke:#56b4e9}.dot{fill:#56b4e9}.bound{fill:#3a3e47}.known{fill:#e69f00}}"
    "</style>\n";

// 1, 2 or 5 times a power of ten, so that about `lines` of them fill the range.
double tick(double range, int lines) {
  const double rough = std::max(range, 1e-12) / lines, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0})
    if (rough <= step * power) return step * power;
  return 10 * power;
}

class Plot {
 public:
  explicit Plot(const MemorySweep& sweep) : sweep_(sweep) {
    for (const MemoryPoint& point : sweep.points) extend(point.memory, point.bubble_step);
    for (const auto& known : sweep.hand_made) extend(known.second.held, known.second.bubble_step);
    highest_ = std::max(highest_, 0.01) * 1.05;
    right_ = std::max(right_, left_ + 1);
  }

  std::string run() {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n", kWidth,
        kHeight);
    text_ += kStyle;
    text_ += fmt::format("<rect class=\"paper\" width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", kWidth, kHeight);
    label(kLeft, 26, "start", fmt::format("{}: bubble of the step against memory", sweep_.name));
    label(kLeft, 46, "start",
          fmt::format("{} ranks, {} microbatches, F {:g}, I {:g}, W {:g}, comm {:g}", sweep_.ranks, sweep_.microbatches,
                      sweep_.costs.F, sweep_.costs.I, sweep_.costs.W, sweep_.costs.comm));
    bound();
    axes();
    found();
    hand_made();
    return text_ + "</svg>\n";
  }

 private:
  void extend(int memory, double bubble) {
    left_ = std::min(left_, double(memory));
    right_ = std::max(right_, double(memory));
    highest_ = std::max(highest_, bubble);
  }
  double x(double memory) const { return kLeft + (memory - left_) / (right_ - left_) * (kWidth - kLeft - kRight); }
  double y(double bubble) const { return kHeight - kBottom - bubble / highest_ * (kHeight - kTop - kBottom); }

  void label(double at_x, double at_y, const char* anchor, const std::string& words) {
    text_ += fmt::format("<text class=\"ink\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"#1b1d21\">{}</text>\n", at_x,
                         at_y, anchor, words);
  }

  void line(const char* kind, const char* color, double x1, double y1, double x2, double y2) {
    text_ += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", kind, x1,
                         y1, x2, y2, color);
  }

  void axes() {
    const double bottom = kHeight - kBottom;
    const double rise = tick(100 * highest_, 6);
    for (int i = 0; i * rise <= 100 * highest_; ++i) {
      line("grid", "#d9dbe0", kLeft, y(i * rise / 100), kWidth - kRight, y(i * rise / 100));
      label(kLeft - 8, y(i * rise / 100) + 4, "end", fmt::format("{:g} %", i * rise));
    }
    const double run = std::max(1.0, tick(right_ - left_, 12));
    for (double memory = std::ceil(left_ / run) * run; memory <= right_; memory += run) {
      line("axis", "#1b1d21", x(memory), bottom, x(memory), bottom + 5);
      label(x(memory), bottom + 20, "middle", fmt::format("{:g}", memory));
    }
    line("axis", "#1b1d21", kLeft, bottom, kWidth - kRight, bottom);
    line("axis", "#1b1d21", kLeft, kTop, kLeft, bottom);
    label((kLeft + kWidth - kRight) / 2, kHeight - 18, "middle", "activations of one stage that a rank may hold");
  }

  void bound() {
    std::string points;
    for (const MemoryPoint& point : sweep_.points)
      points += fmt::format("{:.1f},{:.1f} ", x(point.memory), y(point.least_bubble()));
    const MemoryPoint &first = sweep_.points.front(), &last = sweep_.points.back();
    points += fmt::format("{:.1f},{:.1f} {:.1f},{:.1f}", x(last.memory), y(0), x(first.memory), y(0));
    text_ += fmt::format("<polygon class=\"bound\" points=\"{}\" fill=\"#e6e8ec\"/>\n", points);
  }

  void found() {
    std::string points;
    for (const MemoryPoint& point : sweep_.points) points += fmt::format("{:.1f},{:.1f} ", x(point.memory), y(point.bubble_step));
    text_ +=
        fmt::format("<polyline class=\"found\" points=\"{}\" fill=\"none\" stroke=\"#0072b2\" stroke-width=\"2\"/>\n", points);
    for (const MemoryPoint& point : sweep_.points)
      text_ += fmt::format(
          "<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"#0072b2\"><title>memory {}: makespan {:.10g}, "
          "bubble {:.2f} %, at least {:.2f} %</title></circle>\n",
          x(point.memory), y(point.bubble_step), point.memory, point.makespan, 100 * point.bubble_step,
          100 * point.least_bubble());
    label(kWidth - kRight, 46, "end", "line: found; grey: impossible; squares: hand-made orders");
  }

  void hand_made() {
    for (const auto& [name, point] : sweep_.hand_made) {
      const double at_x = x(point.held), at_y = y(point.bubble_step);
      text_ += fmt::format("<rect class=\"known\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"8\" height=\"8\" fill=\"#d55e00\"/>\n",
                           at_x - 4, at_y - 4);
      const bool right = at_x < kWidth - 120;
      label(right ? at_x + 9 : at_x - 9, at_y - 7, right ? "start" : "end", name);
    }
  }

  const MemorySweep& sweep_;
  double left_ = 1e9, right_ = 0, highest_ = 0;
  std::string text_;
};

}  // namespace

std::string to_svg(const MemorySweep& sweep) { return Plot(sweep).run(); }

}  // namespace panpipe
