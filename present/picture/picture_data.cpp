#include "present/picture/picture_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text/json_writer.hpp"
#include "present/picture/palette.hpp"
#include "present/picture/picture_layout.hpp"

namespace panpipe::present {
namespace {

constexpr int kSheets = 4;  // further chunks reuse the shades of four
constexpr ActionKind kLastKind = ActionKind::G;

ActionKind kind_of(const PictureBox& box) { return box.action.kind; }
StripKind kind_of(const PictureStripe& stripe) { return stripe.kind; }
double bytes_of(const PictureBox&) { return 0; }
double bytes_of(const PictureStripe& stripe) { return stripe.bytes; }

PictureBox plain(const PictureBox& most) { return {{0, 0, {.kind = most.action.kind}, ""}, most.chunk, -1}; }
PictureStripe plain(const PictureStripe& most) { return {{0, 0, {.kind = most.action.kind}, ""}, most.kind, 0}; }

// One for all of a run, of the kind that takes most of the time.
template <class Drawn>
Drawn together(const std::vector<Drawn>& all, const Run& run, double end) {
  std::map<decltype(kind_of(all.front())), double> times;
  const Drawn* most = &all[run.first];
  for (std::size_t i = run.first; i < run.end; ++i) {
    times[kind_of(all[i])] += all[i].end - all[i].start;
    if (times[kind_of(all[i])] > times[kind_of(*most)]) most = &all[i];
  }
  Drawn one = plain(*most);
  one.start = all[run.first].start;
  one.end = end;
  one.label = fmt::format("{} in a row", run.end - run.first);
  return one;
}

// By their starts. With a view, what lies in it.
template <class Drawn>
std::vector<Drawn> shown(const std::vector<Drawn>& drawn, const View* view) {
  std::vector<Drawn> found;
  found.reserve(view == nullptr ? drawn.size() : 0);
  for (const Drawn& one : drawn)
    if (view == nullptr || (one.end >= view->from && one.start <= view->to)) found.push_back(one);
  const auto by_start = [](const Drawn& a, const Drawn& b) { return a.start < b.start; };
  if (!std::is_sorted(found.begin(), found.end(), by_start)) std::stable_sort(found.begin(), found.end(), by_start);
  if (view == nullptr) return found;
  const double scale = view->pixels / (view->to - view->from);
  std::vector<Extent> pixels;
  for (const Drawn& one : found) pixels.push_back({one.start * scale, one.end * scale});
  std::vector<Drawn> merged;
  for (const Run& run : runs_of(pixels))
    merged.push_back(run.end - run.first == 1 ? found[run.first] : together(found, run, extent_of(run, pixels).end / scale));
  return merged;
}

// The highest level of each pixel, and the one before the part begins.
std::vector<std::pair<double, double>> shown(const std::vector<std::pair<double, double>>& memory, const View* view) {
  if (view == nullptr) return memory;
  const double pixel = (view->to - view->from) / view->pixels;
  std::vector<std::pair<double, double>> kept;
  bool before = false;  // whether the last one kept lies before the part
  for (const auto& [time, level] : memory) {
    if (time > view->to) break;
    if (time <= view->from && before)
      kept.back().second = level;
    else if (!kept.empty() && time > view->from && time - kept.back().first < pixel)
      kept.back().second = std::max(kept.back().second, level);
    else
      kept.emplace_back(std::max(time, view->from), level);
    before = time <= view->from;
  }
  return kept;
}

class Writer {
 public:
  Writer(const Picture& picture, const View* view) : picture_(picture), view_(view) {}

  PictureData run() {
    json_.object(JsonLayout::Dense);
    json_.field("title", picture_.title).field("subtitle", picture_.subtitle);
    json_.field("end", picture_.end).field("time_unit", picture_.time_unit).field("chunks", picture_.chunks);
    json_.field("memory_name", picture_.memory_name).field("memory_limit", picture_.memory_limit);
    json_.field("merged", view_ != nullptr).list("actions");
    for (int kind = 0; kind <= static_cast<int>(kLastKind); ++kind) json_.value(name_of(static_cast<ActionKind>(kind)));
    json_.end().list("lanes");
    for (const PictureLane& lane : picture_.lanes) add(lane);
    json_.end().field("labels", labels_).end();
    return {json_.finish(), std::move(bytes_)};
  }

 private:
  void add(const PictureLane& lane) {
    json_.object();
    json_.field("name", lane.name)
        .field("detail", lane.detail)
        .field("step", lane.step)
        .field("peak", lane.peak)
        .field("peak_text", lane.peak_text);
    const std::vector<PictureBox> boxes = shown(lane.boxes, view_);
    add_spans(boxes);
    column<std::int32_t>(boxes, [](const PictureBox& box) { return box.group; });
    column<std::uint16_t>(boxes, [](const PictureBox& box) { return box.chunk; });
    json_.field("boxes", boxes.size()).object("stripes");
    std::array<std::vector<PictureStripe>, kStripKinds> strips;
    for (const PictureStripe& stripe : lane.stripes) strips[static_cast<std::size_t>(stripe.kind)].push_back(stripe);
    for (std::size_t kind = 0; kind < kStripKinds; ++kind) {
      if (strips[kind].empty()) continue;
      const std::vector<PictureStripe> stripes = shown(strips[kind], view_);
      add_spans(stripes);
      json_.field(class_of(static_cast<StripKind>(kind)), stripes.size());
    }
    const std::vector<std::pair<double, double>> memory = shown(lane.memory, view_);
    column<double>(memory, [](const auto& sample) { return sample.first; });
    column<double>(memory, [](const auto& sample) { return sample.second; });
    json_.end().field("memory", memory.size()).end();
  }

  template <class Drawn>
  void add_spans(const std::vector<Drawn>& spans) {
    column<double>(spans, [](const Drawn& span) { return span.start; });
    column<double>(spans, [](const Drawn& span) { return span.end; });
    column<double>(spans, [](const Drawn& span) { return bytes_of(span); });
    column<std::int32_t>(spans, [](const Drawn& span) { return span.action.stage; });
    column<std::int32_t>(spans, [](const Drawn& span) { return span.action.microbatch; });
    column<std::uint32_t>(spans, [this](const Drawn& span) { return label(span.label); });
    column<std::uint8_t>(spans, [](const Drawn& span) { return static_cast<int>(span.action.kind); });
    column<std::int8_t>(spans, [](const Drawn& span) { return span.action.split; });
  }

  template <class Value, class Rows, class Get>
  void column(const Rows& rows, const Get& get) {
    for (const auto& row : rows) {
      const auto value = static_cast<Value>(get(row));
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
  }

  std::size_t label(const std::string& text) {
    if (text.empty()) return 0;
    const auto [place, is_new] = places_.emplace(text, labels_.size());
    if (is_new) labels_.push_back(text);
    return place->second;
  }

  const Picture& picture_;
  const View* view_;
  JsonWriter json_;
  std::string bytes_;
  std::vector<std::string> labels_ = {""};
  std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace

std::size_t drawn(const Picture& picture) {
  std::size_t count = 0;
  for (const PictureLane& lane : picture.lanes) count += lane.boxes.size() + lane.stripes.size();
  return count;
}

PictureData data_of(const Picture& picture) {
  if (drawn(picture) <= kMostDrawn) return Writer(picture, nullptr).run();
  return data_of(picture, {0, picture.end, kPixels});
}

PictureData data_of(const Picture& picture, const View& view) { return Writer(picture, &view).run(); }

std::string palette_json() {
  JsonWriter json;
  json.object(JsonLayout::Dense).list("style_sheets");
  for (int chunks = 1; chunks <= kSheets; ++chunks) json.value(style_sheet(chunks));
  json.end().object("words");
  for (const ActionKind kind : {ActionKind::F, ActionKind::I, ActionKind::W, ActionKind::B, ActionKind::R, ActionKind::Opt})
    json.field(class_of(kind), words_for(kind));
  for (std::size_t kind = 0; kind < kStripKinds; ++kind)
    json.field(class_of(static_cast<StripKind>(kind)), words_for(static_cast<StripKind>(kind)));
  return json.end().end().finish();
}

}  // namespace panpipe::present
