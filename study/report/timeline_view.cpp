#include "study/report/timeline_view.hpp"

#include <fmt/format.h>

#include "present/picture/markup.hpp"
#include "present/picture/picture_data.hpp"
#include "present/picture/timeline_picture.hpp"
#include "study/report/timeline_parts.hpp"

namespace panpipe::study {
namespace {

constexpr double kPixels = 8000;  // of a very long step: a report has no engine that draws a part of it more finely

constexpr const char* kStart = R"js(
setPalette(palette_of_step);
const timeline = new Timeline("Passes, transfers and memory of every rank over time", { roomy: true });
document.getElementById("step").append(timeline.element);
timeline.set({ ...picture_of_step, bytes: Uint8Array.from(atob(columns_of_step), letter => letter.charCodeAt(0)).buffer });
)js";

present::PictureData view_of_step(const present::Picture& picture) {
  if (present::drawn(picture) <= present::kMostDrawn) return present::data_of(picture);
  return present::data_of(picture, {0, picture.end, kPixels});
}

}  // namespace

void add_timeline_view(present::Page& page, const std::vector<const Timeline*>& steps, const std::vector<std::string>& names) {
  const present::PictureData data = view_of_step(present::picture_of(steps, names));
  page.add_style(kTimelineStyle);
  page.add_markup("<div id=\"step\"><noscript><p>The timeline needs JavaScript.</p></noscript></div>\n");
  page.add_script(fmt::format("{}\nconst palette_of_step = {}, picture_of_step = {},\n  columns_of_step = \"{}\";{}",
                              kTimelineScript, present::script_json(present::palette_json()), present::script_json(data.json),
                              present::base64(data.bytes), kStart));
}

}  // namespace panpipe::study
