// A picture as data for what draws it itself, on a canvas: web/page/timeline_data.js reads it.
#pragma once

#include <cstddef>
#include <string>

#include "present/picture/picture.hpp"

namespace panpipe::present {

// `json` is {"title", "subtitle", "end", "time_unit", "chunks", "memory_name", "memory_limit", "merged", "actions", "labels",
// "lanes"} with {"name", "detail", "step", "peak", "peak_text", "boxes", "stripes": {CLASS: count}, "memory"} for each lane. The
// columns of the lanes follow one another in `bytes`, little-endian, each column from a multiple of 8 bytes on:
//
//   boxes, then the stripes of each class, by their starts: start, end, bytes (float64), stage, microbatch (int32), label
//   (uint32),
//     kind (uint8), split (int8); after those of the boxes: group (int32), chunk (uint16)
//   memory: time, level (float64)
//
// `kind` is an index of "actions", `label` of "labels". Half the time of JSON with all of them would be the writing of numbers.
//
// A picture of more than kMostDrawn boxes and stripes is merged, as for a drawing of kPixels: a page then asks for views.
struct PictureData {
  std::string json, bytes;
};
PictureData data_of(const Picture& picture);
constexpr std::size_t kMostDrawn = 100'000;
constexpr double kPixels = 2000;

// The part between two times, for a drawing so many pixels wide: neighbours too narrow to be seen are one span of the kind that
// takes most of the time, whose label is their number.
struct View {
  double from = 0, to = 0, pixels = kPixels;
};
PictureData data_of(const Picture& picture, const View& view);

std::size_t drawn(const Picture& picture);  // boxes and stripes

// {"style_sheets", "words"}: the styles of pictures with 1 to 4 shades, and what their classes mean.
std::string palette_json();

}  // namespace panpipe::present
