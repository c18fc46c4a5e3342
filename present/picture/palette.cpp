#include "present/picture/palette.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/index.hpp"

namespace panpipe::present {
namespace {

struct Colour {
  double red, green, blue;  // 0 to 255
};

Colour mix(const Colour& a, const Colour& b, double share_of_b) {
  const auto part = [&](double x, double y) { return x + (y - x) * share_of_b; };
  return {part(a.red, b.red), part(a.green, b.green), part(a.blue, b.blue)};
}

std::string hex(const Colour& c) {
  return fmt::format("#{:02x}{:02x}{:02x}", std::lround(c.red), std::lround(c.green), std::lround(c.blue));
}

// Weights of ITU-R BT.601; text is dark on what is brighter than the middle.
const char* ink_on(const Colour& c) { return 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue > 128 ? "#14171b" : "#ffffff"; }

constexpr Colour kWhite{255, 255, 255}, kBlack{0, 0, 0};

struct Kind {
  const char *name, *words;
  Colour colour;
};
// In the order of ActionKind; the last stands for every other kind.
constexpr std::array<Kind, 6> kPasses = {{{"F", "F forward", {86, 180, 233}},         // sky blue
                                          {"I", "I input gradient", {230, 159, 0}},   // orange
                                          {"W", "W weight gradient", {0, 158, 115}},  // bluish green
                                          {"B", "B full backward", {213, 94, 0}},     // vermilion
                                          {"R", "R recompute", {204, 121, 167}},      // reddish purple
                                          {"O", "optimizer", {120, 125, 133}}}};      // grey
static_assert(at(ActionKind::F) == 0 && at(ActionKind::I) == 1 && at(ActionKind::W) == 2 && at(ActionKind::B) == 3 &&
              at(ActionKind::R) == 4);
const Kind& pass_of(ActionKind kind) { return kPasses[std::min(at(kind), kPasses.size() - 1)]; }

// None is a pass's: chosen so that each is at least 23 (CIE Lab) from every pass, for common colour blindness too, and stands out
// from white and from black paper.
constexpr std::array<Kind, kStripKinds> kStrips = {{{"s-tensor", "tensor-parallel collective", {140, 30, 140}},  // purple
                                                    {"s-send", "send", {0, 114, 178}},                           // blue
                                                    {"s-receive", "receive", {105, 60, 225}},                    // violet
                                                    {"s-data", "data-parallel collective", {60, 90, 90}},        // slate
                                                    {"s-copy", "copy to and from the host", {150, 60, 30}}}};    // brown

Colour shaded(const Colour& base, int shade, int shades) {
  if (shades == 1) return mix(base, kWhite, 0.15);
  const double at = static_cast<double>(shade) / (shades - 1);  // 0 = light, 1 = dark
  return at < 0.5 ? mix(base, kWhite, 0.45 * (1 - 2 * at)) : mix(base, kBlack, 0.32 * (2 * at - 1));
}

// Shapes and sizes; plain values, because simple viewers know no CSS variables.
constexpr const char* kShapes = R"(
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 11px; }
.title { font-size: 16px; font-weight: 600; } .small { font-size: 10px; } .end { text-anchor: end; } .mid { text-anchor: middle; }
.n { text-anchor: middle; font-size: 9.5px; pointer-events: none; } .n.half { font-size: 8px; }
.grid { stroke-width: 0.6; } .frame { fill: none; stroke-width: 1; pointer-events: none; }
.curve { fill: none; stroke-width: 1; } .area { fill-opacity: 0.55; } .peak { stroke-width: 0.8; stroke-dasharray: 2 2; }
.limit { stroke-width: 1; }
)";

// The colors that differ between light and dark.
constexpr NeutralColours kLight{"#ffffff", "#1b1f24", "#57606a", "#eaedf1", "#c3cad3", "#51606f", "#aab8c6", "#b3261e"};
constexpr NeutralColours kDark{"#14171b", "#e6e9ed", "#a2acb7", "#262b32", "#414a54", "#a9b6c3", "#4a5866", "#ff8a80"};

std::string neutral_rules(const NeutralColours& c) {
  return fmt::format(
      "text {{ fill: {ink}; }} .soft {{ fill: {soft}; }} .paper {{ fill: {paper}; }} .idle {{ fill: {idle}; }} "
      ".grid {{ stroke: {grid}; }}\n.frame {{ stroke: {ink}; }} .curve, .peak {{ stroke: {curve}; }} .area {{ fill: {fill}; }} "
      ".limit {{ stroke: {over}; }} .over {{ fill: {over}; }}\n",
      fmt::arg("ink", c.ink), fmt::arg("soft", c.soft), fmt::arg("paper", c.paper), fmt::arg("idle", c.idle),
      fmt::arg("grid", c.grid), fmt::arg("curve", c.curve), fmt::arg("fill", c.fill), fmt::arg("over", c.over));
}

}  // namespace

const NeutralColours& neutral_colours(bool dark) { return dark ? kDark : kLight; }

std::string series_colour(std::size_t series) {
  // Blue, vermilion, bluish green, reddish purple, orange, sky blue, olive, grey.
  static constexpr std::array<Colour, kSeriesColours> kSeries = {{{33, 126, 190},
                                                                  {213, 94, 0},
                                                                  {0, 158, 115},
                                                                  {204, 121, 167},
                                                                  {230, 159, 0},
                                                                  {86, 180, 233},
                                                                  {170, 145, 20},
                                                                  {120, 125, 133}}};
  return hex(kSeries[series % kSeriesColours]);
}

int shade_count(int chunks) { return std::clamp(chunks, 1, 4); }

int shade_of(int chunk, int chunks) {
  const int shades = shade_count(chunks);
  return chunks <= shades ? chunk : chunk % shades;
}

const char* class_of(ActionKind kind) { return pass_of(kind).name; }

const char* class_of(StripKind kind) { return kStrips[at(kind)].name; }

const char* words_for(ActionKind kind) {
  const bool vocabulary = kind == ActionKind::E || kind == ActionKind::S || kind == ActionKind::T || kind == ActionKind::G;
  return vocabulary ? "E, S, T, G of the vocabulary" : pass_of(kind).words;
}

const char* words_for(StripKind kind) { return kStrips[at(kind)].words; }

std::string style_sheet(int chunks) {
  std::string text = kShapes + neutral_rules(kLight) + "@media (prefers-color-scheme: dark) {\n" + neutral_rules(kDark) + "}\n";
  const int shades = shade_count(chunks);
  for (const Kind& pass : kPasses)
    for (int shade = 0; shade < shades; ++shade) {
      const Colour colour = shaded(pass.colour, shade, shades);
      text += fmt::format(".{0}{1} {{ fill: {2}; }} .t{0}{1} {{ fill: {3}; }}\n", pass.name, shade, hex(colour), ink_on(colour));
    }
  for (const Kind& strip : kStrips) text += fmt::format(".{} {{ fill: {}; }}\n", strip.name, hex(strip.colour));
  return text;
}

}  // namespace panpipe::present
