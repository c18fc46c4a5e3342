// A picture as SVG: title, legend, a lane per rank with its curve, the time axis.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/text/memory_text.hpp"
#include "present/picture/markup.hpp"
#include "present/picture/palette.hpp"
#include "present/picture/picture_layout.hpp"

namespace panpipe::present {
namespace {

// With more boxes than this, hints would make most of the file.
constexpr std::size_t kMostHints = 8000;

class Drawing {
 public:
  explicit Drawing(const Picture& picture) : picture_(picture), layout_(lay_out(picture)) {
    std::size_t boxes = 0;
    for (const PictureLane& lane : picture.lanes) {
      boxes += lane.boxes.size() + lane.stripes.size();
      highest_ = std::max(highest_, lane.peak);
      for (const PictureBox& box : lane.boxes) longest_text_ = std::max(longest_text_, text_width(box.text(), 1));
    }
    hints_ = boxes <= kMostHints;
    limit_ = drawn_limit(picture.memory_limit, highest_);
    highest_ = std::max(highest_, limit_);
  }

  std::string run() {
    for (const PictureLane& lane : picture_.lanes) placed_.push_back(place(lane));
    legend();
    layout_.top = legend_bottom_ + 16;
    lanes();
    axis();
    const double height = bottom() + 34, width = layout_.total_width();
    std::string head = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n"
        "{2}<style>{3}</style>\n<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n",
        px(width), px(height), titled() ? fmt::format("<title>{}</title>\n", escaped(picture_.title)) : "",
        style_sheet(picture_.chunks));
    if (titled())
      head += fmt::format("<text class=\"title\" x=\"16\" y=\"28\">{}</text>\n<text class=\"soft\" x=\"16\" y=\"47\">{}</text>\n",
                          escaped(picture_.title), escaped(picture_.subtitle));
    return head + text_ + "</svg>\n";
  }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> form, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), form, std::forward<Values>(values)...);
  }

  // The marks over the boxes of a lane: numbers, frames.
  template <class... Values>
  void add_over(fmt::format_string<Values...> form, Values&&... values) {
    fmt::format_to(std::back_inserter(over_), form, std::forward<Values>(values)...);
  }

  bool titled() const { return !picture_.title.empty(); }
  double bottom() const { return layout_.top + layout_.lane * static_cast<double>(picture_.lanes.size()); }

  std::string hinted(const PictureSpan& span, double bytes = 0) const {
    return hints_ ? hint_of(picture_, span, bytes) : std::string();
  }
  std::string hint(const std::string& text) const { return hints_ ? fmt::format("<title>{}</title>", escaped(text)) : ""; }

  // --- legend: only what the picture has ---
  void legend() {
    std::set<ActionKind> kinds;
    bool grouped = false;
    for (const PictureLane& lane : picture_.lanes)
      for (const PictureBox& box : lane.boxes) {
        kinds.insert(box.action.is_compute() ? box.action.kind : box.action.is_vocabulary() ? ActionKind::S : ActionKind::Opt);
        grouped |= box.group >= 0;
      }
    legend_x_ = 16;
    legend_bottom_ = titled() ? 71 : 22;
    const int shades = shade_count(picture_.chunks);
    for (const ActionKind kind : kinds) {
      const int shown = kind == ActionKind::Opt || kind == ActionKind::S ? 1 : shades;
      const double x = legend_item(words_for(kind), 12.0 * shown);
      for (int shade = 0; shade < shown; ++shade)
        add("<rect class=\"{}{}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"12\"/>", class_of(kind), shade, px(x + 12 * shade),
            px(legend_bottom_ - 10));
    }
    if (picture_.chunks > 1)
      legend_item(picture_.chunks > shades ? "(shades: the rank's stages, in turn)" : "(shades: the rank's stages, first light)",
                  0);
    if (grouped) {
      const double x = legend_item("passes that overlap as a group", 14);
      add("<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"13\" height=\"11\"/>", px(x + 0.5), px(legend_bottom_ - 9.5));
    }
    legend_swatch("idle", "idle");
    for (const StripKind kind : layout_.strips) {
      const double x = legend_item(words_for(kind), 14);
      add("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"4\"/>", class_of(kind), px(x), px(legend_bottom_ - 6));
    }
    if (mixed_) {
      const double x = legend_item("too narrow to be seen: heights are shares of the time", 14);
      const std::string fill = class_of(kinds.empty() ? ActionKind::F : *kinds.begin()) + std::string("0");
      add("<rect class=\"idle\" x=\"{0}\" y=\"{1}\" width=\"14\" height=\"12\"/><rect class=\"{2}\" x=\"{0}\" y=\"{3}\" "
          "width=\"14\" height=\"7\"/>",
          px(x), px(legend_bottom_ - 10), fill, px(legend_bottom_ - 5));
    }
    if (layout_.curve > 0) legend_swatch("area", picture_.memory_name + ", all ranks to one scale");
    if (layout_.curve > 0 && limit_ > 0) {
      const double x = legend_item("limit of a device", 14);
      add("<line class=\"limit\" x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>", px(x), px(x + 14),
          fmt::arg("y", px(legend_bottom_ - 4)));
    }
    add("\n");
  }

  void legend_swatch(const char* name, const std::string& words) {
    const double x = legend_item(words, 14);
    add("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"12\"/>", name, px(x), px(legend_bottom_ - 10));
  }

  // Writes the words behind room for a swatch of the given width; returns where the swatch starts.
  double legend_item(const std::string& words, double swatch) {
    const double needed = swatch + 5 + text_width(words, 11) + 18;
    if (legend_x_ > 16 && legend_x_ + needed > layout_.total_width()) {
      legend_x_ = 16;
      legend_bottom_ += 18;
    }
    const double x = legend_x_;
    legend_x_ += needed;
    add("<text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>", px(x + (swatch > 0 ? swatch + 5 : 0)), px(legend_bottom_),
        escaped(words));
    return x;
  }

  // --- lanes ---
  void lanes() {
    for (std::size_t i = 0; i < picture_.lanes.size(); ++i)
      add("<rect class=\"idle\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", px(layout_.left), px(lane_y(i)),
          px(layout_.width), px(layout_.box));
    for (const double tick : axis_ticks(picture_.end, layout_.width))
      add("<line class=\"grid\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/>\n", px(layout_.x(tick)), px(layout_.top - 4),
          px(bottom()));
    for (std::size_t i = 0; i < picture_.lanes.size(); ++i) {
      const PictureLane& lane = picture_.lanes[i];
      add("<g transform=\"translate(0 {})\">\n<text x=\"{x}\" y=\"13\" class=\"end\">{name}</text><text class=\"small soft end\" "
          "x=\"{x}\" y=\"25\">{detail}</text>\n",
          px(lane_y(i)), fmt::arg("x", px(layout_.left - 8)), fmt::arg("name", escaped(lane.name)),
          fmt::arg("detail", escaped(shortened(lane.detail))));
      boxes(placed_[i]);
      stripes(lane);
      finish_lane_boxes();
      if (layout_.curve > 0) curve(lane);
      add("</g>\n");
    }
  }

  double lane_y(std::size_t index) const { return layout_.top + layout_.lane * static_cast<double>(index); }

  std::string shortened(const std::string& detail) const {
    constexpr std::size_t kMost = 40;
    return detail.size() <= kMost ? detail : detail.substr(0, kMost - 3) + "...";
  }

  // Without hints, rectangles of one look are one path: a fifth of the text.
  void rectangle(const std::string& look, double x, double y, double width, double height, const std::string& hint_text) {
    if (hints_) {
      add("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>\n", look, px(x), px(y), px(width),
          px(height), hint(hint_text));
    } else {
      paths_[look] += fmt::format("M{} {}h{}v{}h-{}z", px(x), px(y), px(width), px(height), px(width));
    }
  }

  void finish_lane_boxes() {
    for (const auto& [look, path] : paths_) add("<path class=\"{}\" d=\"{}\"/>\n", look, path);
    paths_.clear();
    text_ += std::exchange(over_, "");
  }

  // The boxes of a lane, and which are drawn together.
  struct PlacedLane {
    std::vector<PlacedBox> boxes;
    std::vector<Extent> pixels;
    std::vector<Run> runs;
  };

  PlacedLane place(const PictureLane& lane) {
    PlacedLane placed;
    placed.boxes = place_boxes(lane, layout_);
    for (const PlacedBox& box : placed.boxes) placed.pixels.push_back(box.x);
    placed.runs = runs_of(placed.pixels);
    for (const Run& run : placed.runs) mixed_ |= run.end - run.first > 1;
    return placed;
  }

  void boxes(const PlacedLane& lane) {
    struct Frame {
      double from = 1e300, to = 0;
    };
    std::map<int, Frame> frames;
    for (const Run& run : lane.runs) {
      if (run.end - run.first > 1) {
        together(lane.boxes, run, extent_of(run, lane.pixels));
        continue;
      }
      const PlacedBox& placed = lane.boxes[run.first];
      const PictureBox& box = *placed.box;
      const double height = layout_.box / placed.track.tracks, y = height * placed.track.track;
      const double width = std::max(kVisible, placed.x.end - placed.x.start);
      const double gap = width > 3 ? 0.7 : 0;  // between neighbours
      rectangle(look_of(box), placed.x.start, y, width - gap, height - (placed.track.track + 1 < placed.track.tracks ? 0.7 : 0),
                hinted(box));
      number(placed, y + height / 2);
      if (box.group < 0) continue;
      Frame& frame = frames[box.group];
      frame.from = std::min(frame.from, placed.x.start);
      frame.to = std::max(frame.to, placed.x.start + width - gap);
    }
    for (const auto& [group, frame] : frames)
      if (frame.to - frame.from > 4)
        add_over("<rect class=\"frame\" x=\"{}\" y=\"0.5\" width=\"{}\" height=\"{}\"/>\n", px(frame.from + 0.4),
                 px(frame.to - frame.from - 0.8), px(layout_.box - 1));
  }

  int shade_of_box(const PictureBox& box) const { return box.action.is_compute() ? shade_of(box.chunk, picture_.chunks) : 0; }
  std::string look_of(const PictureBox& box) const { return fmt::format("{}{}", class_of(box.action.kind), shade_of_box(box)); }

  // Boxes too narrow to be seen, each kind as high as its share of their time; what is left on top is idle.
  void together(const std::vector<PlacedBox>& all, const Run& run, const Extent& extent) {
    std::map<std::pair<ActionKind, int>, double> widths;  // from the bottom on
    double busy = 0;
    for (std::size_t i = run.first; i < run.end; ++i) {
      const double width = all[i].x.end - all[i].x.start;
      widths[{all[i].box->action.kind, shade_of_box(*all[i].box)}] += width;
      busy += width;
    }
    const double whole = std::max(busy, extent.end - extent.start), width = std::max(kVisible, extent.end - extent.start);
    std::string shares;
    if (hints_)
      for (const auto& [look, part] : widths) shares += fmt::format(", {} {:.0f} %", name_of(look.first), 100 * part / whole);
    double y = layout_.box;
    for (const auto& [look, part] : widths) {
      const double height = layout_.box * part / whole;
      y -= height;
      rectangle(fmt::format("{}{}", class_of(look.first), look.second), extent.start, y, width, height,
                fmt::format("{} passes{}", run.end - run.first, shares));
    }
  }

  // Boxes of one length show their numbers all or none, whether the number has one digit or two.
  void number(const PlacedBox& placed, double middle) {
    const PictureBox& box = *placed.box;
    const bool half = placed.track.tracks == 2;
    const double size = half ? 8 : 9.5, width = placed.x.end - placed.x.start;
    const std::string text = box.text();
    if (text.empty() || placed.track.tracks > 2 || width < longest_text_ * size + 1.5) return;
    add_over("<text class=\"n{} t{}\" x=\"{}\" y=\"{}\">{}</text>\n", half ? " half" : "", look_of(box),
             px(placed.x.start + width / 2 - 0.3), px(middle + 0.36 * size), escaped(text));
  }

  void stripes(const PictureLane& lane) {
    for (std::size_t index = 0; index < layout_.strips.size(); ++index) {
      std::vector<const PictureStripe*> own;
      for (const PictureStripe& stripe : lane.stripes)
        if (stripe.kind == layout_.strips[index] && stripe.end > stripe.start) own.push_back(&stripe);
      std::stable_sort(own.begin(), own.end(), [](const auto* a, const auto* b) { return a->start < b->start; });
      std::vector<Extent> pixels;
      pixels.reserve(own.size());
      for (const PictureStripe* stripe : own) pixels.push_back({layout_.x(stripe->start), layout_.x(stripe->end)});
      for (const Run& run : runs_of(pixels)) stripe_of(*own[run.first], run, pixels, layout_.strip_y(index));
    }
  }

  // As high as the share of the time that is covered.
  void stripe_of(const PictureStripe& first, const Run& run, const std::vector<Extent>& pixels, double y) {
    const Extent extent = extent_of(run, pixels);
    const double width = extent.end - extent.start;
    double covered = 0;
    for (std::size_t i = run.first; i < run.end; ++i) covered += pixels[i].end - pixels[i].start;
    const double height = layout_.strip * std::clamp(covered / width, 0.15, 1.0);
    const std::size_t count = run.end - run.first;
    rectangle(class_of(first.kind), extent.start, y + layout_.strip - height, std::max(kVisible, width) - (width > 3 ? 0.7 : 0),
              height,
              count > 1 ? fmt::format("{} of them, {:.0f} % of the time", count, 100 * std::min(1.0, covered / width))
                        : hinted(first, first.bytes));
  }

  // --- memory ---
  void curve(const PictureLane& lane) {
    if (lane.memory.empty() || highest_ <= 0) return;
    const double base = layout_.curve_y() + layout_.curve;
    const auto y = [&](double level) { return base - layout_.curve * level / highest_; };
    const double end = layout_.left + layout_.width;
    std::string line = fmt::format("M{} {}", px(layout_.x(lane.memory.front().first)), px(y(lane.memory.front().second)));
    for (std::size_t i = 1; i < lane.memory.size();) {
      // Within a pixel only the highest and the last level are drawn.
      const double x = layout_.x(lane.memory[i].first);
      double highest = lane.memory[i].second, last = highest;
      for (++i; i < lane.memory.size() && layout_.x(lane.memory[i].first) < x + 0.4; ++i) {
        last = lane.memory[i].second;
        highest = std::max(highest, last);
      }
      line += fmt::format("H{}V{}", px(x), px(y(highest)));
      if (last != highest) line += fmt::format("V{}", px(y(last)));
    }
    line += fmt::format("H{}", px(end));
    add("<path class=\"area\" d=\"{}V{}H{}Z\"/><path class=\"curve\" d=\"{}\"/>\n", line, px(base), px(layout_.left), line);
    const bool over = limit_ > 0 && lane.peak > limit_;
    add("<line class=\"peak\" x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/><text class=\"small{}\" x=\"{}\" y=\"{}\">peak "
        "{}</text>\n",
        px(layout_.left), px(end + 4), over ? " over" : "", px(end + 7), px(y(lane.peak) + 4), escaped(lane.peak_text),
        fmt::arg("y", px(y(lane.peak))));
    if (limit_ > 0)
      add("<line class=\"limit\" x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\">{}</line>\n", px(layout_.left), px(end),
          hint("limit of the device"), fmt::arg("y", px(y(limit_))));
  }

  void axis() {
    const std::vector<double> ticks = axis_ticks(picture_.end, layout_.width);
    for (const double tick : ticks)
      add("<text class=\"small soft mid\" x=\"{}\" y=\"{}\">{:g}</text>\n", px(layout_.x(tick)), px(bottom() + 12), tick);
    add("<text class=\"small soft\" x=\"{}\" y=\"{}\">time{}{}</text>\n", px(layout_.left), px(bottom() + 25),
        picture_.time_unit.empty() ? "" : ", ", picture_.time_unit);
  }

  const Picture& picture_;
  PictureLayout layout_;
  std::vector<PlacedLane> placed_;
  std::string text_;
  std::map<std::string, std::string> paths_;  // of a lane, by look
  std::string over_;
  bool hints_ = true, mixed_ = false;
  double highest_ = 0, limit_ = 0;
  double longest_text_ = 0;  // at font size 1
  double legend_x_ = 16, legend_bottom_ = 0;
};

}  // namespace

std::string PictureSpan::text() const {
  if (action.microbatch < 0) return "";
  return action.split < 0 ? std::to_string(action.microbatch) : fmt::format("{}.{}", action.microbatch, action.split);
}

std::string hint_of(const Picture& picture, const PictureSpan& span, double bytes) {
  std::string hint = fmt::format("{}{}{}: {:.6g} to {:.6g}", to_text(span.action), span.label.empty() ? "" : " ", span.label,
                                 span.start, span.end);
  if (!picture.time_unit.empty()) hint += " " + picture.time_unit;
  if (bytes > 0) hint += ", " + memory_text(bytes);
  return hint;
}

std::string to_svg(const Picture& picture) { return Drawing(picture).run(); }

}  // namespace panpipe::present
