#include "web/engine/picture_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/text/json_writer.hpp"
#include "present/picture/palette.hpp"
#include "present/picture/picture_layout.hpp"

namespace panpipe::web {
namespace {

using present::Picture, present::PictureBox, present::PictureLane, present::PictureStripe;

void write(JsonWriter& json, const PictureBox& box) {
  json.list().value(box.start).value(box.end).value(present::class_of(box.kind)).value(box.chunk);
  json.value(box.text).value("").value(box.group).end();  // a hint repeats the other members, in half of all letters
}

void write(JsonWriter& json, const PictureStripe& stripe) {
  json.list().value(stripe.start).value(stripe.end).value(present::class_of(stripe.kind)).value(stripe.hint).end();
}

PictureBox plain(const PictureBox& longest) { return {0, 0, longest.kind, longest.chunk, "", "", -1}; }
PictureStripe plain(const PictureStripe& longest) { return {longest.kind, 0, 0, ""}; }

// One for all of a run, of the kind that takes most of the time.
template <class Drawn>
Drawn together(const std::vector<const Drawn*>& all, const present::Run& run, double end) {
  std::map<decltype(Drawn::kind), double> times;
  const Drawn* most = all[run.first];
  for (std::size_t i = run.first; i < run.end; ++i) {
    times[all[i]->kind] += all[i]->end - all[i]->start;
    if (times[all[i]->kind] > times[most->kind]) most = all[i];
  }
  Drawn one = plain(*most);
  one.start = all[run.first]->start;
  one.end = end;
  one.hint = fmt::format("{} in a row", run.end - run.first);
  return one;
}

template <class Drawn>
void write_view(JsonWriter& json, const std::vector<Drawn>& drawn, const View& view) {
  std::vector<const Drawn*> shown;
  for (const Drawn& one : drawn)
    if (one.end >= view.from && one.start <= view.to) shown.push_back(&one);
  std::stable_sort(shown.begin(), shown.end(), [](const Drawn* a, const Drawn* b) { return a->start < b->start; });
  const double scale = view.pixels / (view.to - view.from);
  std::vector<present::Extent> pixels;
  for (const Drawn* one : shown) pixels.push_back({one->start * scale, one->end * scale});
  for (const present::Run& run : present::runs_of(pixels)) {
    if (run.end - run.first == 1)
      write(json, *shown[run.first]);
    else
      write(json, together(shown, run, present::extent_of(run, pixels).end / scale));
  }
}

// The highest level of each pixel, and the one before the part begins.
void write_memory(JsonWriter& json, const std::vector<std::pair<double, double>>& memory, const View& view) {
  const double pixel = (view.to - view.from) / view.pixels;
  std::pair<double, double> kept{view.from, 0};
  bool open = false;
  for (const auto& [time, level] : memory) {
    if (time > view.to) break;
    if (time <= view.from)
      kept = {view.from, level}, open = true;
    else if (open && time - kept.first < pixel)
      kept.second = std::max(kept.second, level);
    else {
      if (open) json.value(std::vector{kept.first, kept.second});
      kept = {time, level}, open = true;
    }
  }
  if (open) json.value(std::vector{kept.first, kept.second});
}

void write_lane(JsonWriter& json, const PictureLane& lane, const View* view) {
  json.object();
  json.field("name", lane.name).field("detail", lane.detail).field("peak", lane.peak).field("peak_text", lane.peak_text);
  json.list("boxes");
  if (view != nullptr)
    write_view(json, lane.boxes, *view);
  else
    for (const PictureBox& box : lane.boxes) write(json, box);
  json.end().list("stripes");
  if (view != nullptr)
    write_view(json, lane.stripes, *view);
  else
    for (const PictureStripe& stripe : lane.stripes) write(json, stripe);
  json.end().list("memory");
  if (view != nullptr)
    write_memory(json, lane.memory, *view);
  else
    for (const auto& [time, level] : lane.memory) json.value(std::vector{time, level});
  json.end().end();
}

std::string written(const Picture& picture, const View* view) {
  JsonWriter json;
  json.object(JsonLayout::Dense);
  json.field("title", picture.title).field("subtitle", picture.subtitle);
  json.field("end", picture.end).field("time_unit", picture.time_unit).field("chunks", picture.chunks);
  json.field("memory_name", picture.memory_name).field("memory_limit", picture.memory_limit).field("merged", view != nullptr);
  json.list("lanes");
  for (const PictureLane& lane : picture.lanes) write_lane(json, lane, view);
  json.end().end();
  return json.finish();
}

}  // namespace

std::size_t drawn(const Picture& picture) {
  std::size_t count = 0;
  for (const PictureLane& lane : picture.lanes) count += lane.boxes.size() + lane.stripes.size();
  return count;
}

std::string to_json(const Picture& picture) {
  if (drawn(picture) <= kMostDrawn) return written(picture, nullptr);
  return to_json(picture, {0, picture.end, kPixels});
}

std::string to_json(const Picture& picture, const View& view) { return written(picture, &view); }

}  // namespace panpipe::web
