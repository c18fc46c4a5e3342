// A picture as data for what draws it itself.
#pragma once

#include <cstddef>
#include <string>

#include "present/picture/picture.hpp"

namespace panpipe::web {

// {"title", "subtitle", "end", "time_unit", "chunks", "memory_name", "memory_limit", "merged", "lanes": [LANE]}, where LANE is
// {"name", "detail", "peak", "peak_text", "boxes": [[start, end, class_of(), chunk, text, "", group]],
//  "stripes": [[start, end, class_of(), hint]], "memory": [[time, level]]}
//
// A picture of more than kMostDrawn boxes and stripes is merged, as for a drawing of kPixels: the page then asks for views.
std::string to_json(const present::Picture& picture);
constexpr std::size_t kMostDrawn = 100'000;
constexpr double kPixels = 2000;

// The part between two times, for a drawing so many pixels wide: neighbours too narrow to be seen are one box of the kind that
// takes most of the time, and without a text.
struct View {
  double from = 0, to = 0, pixels = kPixels;
};
std::string to_json(const present::Picture& picture, const View& view);

std::size_t drawn(const present::Picture& picture);  // boxes and stripes

}  // namespace panpipe::web
