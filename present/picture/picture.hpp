// A step as a picture: a drawing independent of its source, and the SVG made from it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedule/action.hpp"

namespace panpipe::present {

struct PictureSpan {
  double start = 0, end = 0;
  Action action;
  std::string label;  // of a collective, or of another program's action

  std::string text() const;  // the microbatch, "3" or "3.1": drawn inside if it fits; may be empty
};

// A pass, or the optimizer.
struct PictureBox : PictureSpan {
  int chunk = 0;   // index among its rank's stages, in the order of the chain; drawn as shade
  int group = -1;  // number shared by the boxes of one group within their lane; -1 = none
};

// Thin lanes under the boxes, drawn in this order.
enum class StripKind : std::uint8_t { Tensor, Send, Receive, Data, Copy };
constexpr std::size_t kStripKinds = 5;

struct PictureStripe : PictureSpan {
  StripKind kind{};
  double bytes = 0;
};

struct PictureLane {
  std::string name, detail;  // "rank 0"; "stages 0, 7"
  std::string step;          // of two: which, "simulated A"
  std::vector<PictureBox> boxes;
  std::vector<PictureStripe> stripes;
  std::vector<std::pair<double, double>> memory;  // time, level from then on; ascending
  double peak = 0;
  std::string peak_text;
};

struct Picture {
  std::string title, subtitle;  // empty: the page around it prints them
  double end = 0;               // of the step
  std::string time_unit;        // next to the axis: "ms"; may be empty
  int chunks = 1;               // largest number of stages of a rank
  std::vector<PictureLane> lanes;
  std::string memory_name;  // the quantity of the curves: "activations"; empty = no curves
  double memory_limit = 0;  // drawn if it is near the curves; 0 = none
};

// What is shown under the mouse: "0SEND_F0: 2 to 3 ms, 2.00 MiB".
std::string hint_of(const Picture& picture, const PictureSpan& span, double bytes = 0);

// A self-contained SVG for light and dark backgrounds. Boxes too narrow for their text lose it; boxes too narrow to see are
// merged.
std::string to_svg(const Picture& picture);

}  // namespace panpipe::present
