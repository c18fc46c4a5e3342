// Colours of pictures. The hues are from Okabe and Ito (Color Universal Design, 2008), which readers with any common colour
// blindness can distinguish. Shades of a hue distinguish the stages of one rank.
#pragma once

#include <cstddef>
#include <string>

#include "present/picture/picture.hpp"

namespace panpipe::present {

// Number of shades for `chunks` stages of a rank: 1 to 4. Further stages reuse the shades in turn.
int shade_count(int chunks);
int shade_of(int chunk, int chunks);

// The <style> of a picture: text, axes, boxes by pass and shade ("F1"), stripes ("s-send"), memory. It includes a second set of
// neutral colours for dark screens.
std::string style_sheet(int chunks);

// Colours of paper, text and lines, on a light or a dark screen.
struct NeutralColours {
  const char *paper, *ink, *soft, *idle, *grid, *curve, *fill, *over;  // over: beyond a limit
};
const NeutralColours& neutral_colours(bool dark);

// Colours of a plot's series, in turn, with hues as different as the palette allows.
constexpr std::size_t kSeriesColours = 8;
std::string series_colour(std::size_t series);

const char* class_of(ActionKind kind);  // "F", "I", ...; "O" for the optimizer and all other actions that are not passes
const char* class_of(StripKind kind);
const char* words_for(ActionKind kind);  // for the legend
const char* words_for(StripKind kind);

}  // namespace panpipe::present
