// Pictures as text: what is drawn, what gives way when it is narrow, and that the file is whole.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "present/picture/palette.hpp"
#include "present/picture/picture_layout.hpp"
#include "present/picture/schedule_picture.hpp"
#include "present/picture/timeline_picture.hpp"
#include "tests/present/page/page_markup.hpp"

namespace panpipe::present {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string svg_of(const Schedule& schedule, const PassCosts& costs = {}) {
  return to_svg(picture_of(schedule, evaluate(schedule, costs)));
}

TEST(Picture, DrawsEveryPassWithItsNumber) {
  // 1F1B on two ranks, two microbatches: four forwards and four backwards, the last end at 9, six rank-units of 3x2 idle:
  // 1-12/18.
  const std::string svg = svg_of(make_schedule("1f1b", 2, 2));
  EXPECT_EQ(broken_markup(svg), "");
  EXPECT_EQ(count(svg, "<rect class=\"F0\""), 4U + 1);  // and the legend's
  EXPECT_EQ(count(svg, "<rect class=\"B0\""), 4U + 1);
  EXPECT_EQ(count(svg, "<rect class=\"W0\""), 0U);
  EXPECT_EQ(count(svg, "<text class=\"n tF0\""), 4U);
  EXPECT_THAT(svg, HasSubstr("<title>0B1: 7 to 9</title>"));
  EXPECT_THAT(svg, HasSubstr("1f1b: 2 ranks, 2 stages, 2 microbatches"));
  EXPECT_THAT(
      svg, HasSubstr("makespan 9; bubble 33.3 % of the step, 20.0 % of the ranks' spans; at most 2 activations held on a rank"));
  EXPECT_THAT(svg, HasSubstr(">peak 2<"));
  EXPECT_THAT(svg, HasSubstr(">peak 1<"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Picture, MembersOfAGroupShareTheHeightInsideAFrame) {
  const Schedule schedule = read_schedule_csv("0F0,0F1,0B0,0B1\r\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\r\n", "order.csv");
  const std::string svg = svg_of(schedule);
  EXPECT_EQ(count(svg, "<rect class=\"frame\""), 1U + 1);  // and the legend's
  EXPECT_EQ(count(svg, "class=\"n half"), 2U);
  EXPECT_THAT(svg, HasSubstr("passes that overlap as a group"));
  EXPECT_THAT(svg_of(make_schedule("1f1b", 2, 2)), Not(HasSubstr("passes that overlap")));
}

TEST(Picture, CopiesLieInALaneUnderThePasses) {
  const std::string svg = svg_of(make_schedule("gpipe", 1, 4, {{"offload", "selective"}}));
  EXPECT_EQ(count(svg, "<rect class=\"s-copy\""), 6U + 1);  // three offloads, three reloads, the legend
  EXPECT_EQ(broken_markup(svg), "");
}

TEST(Picture, NumbersVanishTogetherAndFilesStaySmall) {
  const std::string small = svg_of(make_schedule("1f1b", 8, 24));
  EXPECT_EQ(count(small, "<text class=\"n tF0\""), 8U * 24);
  // 3*(64+15) = 237 units in 2200 pixels: a forward is 9 wide, too narrow for two digits, a backward has room.
  const std::string medium = svg_of(make_schedule("1f1b", 16, 64));
  EXPECT_EQ(count(medium, "<text class=\"n tF0\""), 0U);
  EXPECT_EQ(count(medium, "<text class=\"n tB0\""), 16U * 64);
  const std::string large = svg_of(make_schedule("1f1b", 64, 1024));
  EXPECT_EQ(count(large, "class=\"n t"), 0U);
  EXPECT_EQ(broken_markup(large), "");
  EXPECT_LT(large.size(), 6U << 20);
}

TEST(Picture, NamesFromFilesAreEscaped) {
  Schedule schedule = make_schedule("1f1b", 2, 2);
  schedule.name = "a<b> & \"c\"";
  const std::string svg = svg_of(schedule);
  EXPECT_EQ(broken_markup(svg), "");
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt; &amp; &quot;c&quot;: 2 ranks"));
}

TEST(Picture, AxisTicksAreRoundAndNotCrowded) {
  EXPECT_EQ(axis_ticks(93, 900), (std::vector<double>{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}));
  EXPECT_EQ(axis_ticks(0.7, 300), (std::vector<double>{0, 0.5}));
  EXPECT_EQ(axis_ticks(0, 900), (std::vector<double>{0}));
}

TEST(Picture, OverlappingBoxesGetTracks) {
  PictureLane lane;
  lane.boxes = {{{0, 4, {.kind = ActionKind::F}, ""}, 0, 0},
                {{2, 6, {.kind = ActionKind::B}, ""}, 0, 0},
                {{6, 8, {.kind = ActionKind::F}, ""}, 0, -1}};
  PictureLayout layout;
  layout.scale = 10;
  const std::vector<PlacedBox> placed = place_boxes(lane, layout);
  ASSERT_EQ(placed.size(), 3U);
  EXPECT_EQ(placed[0].track.tracks, 2);
  EXPECT_EQ(placed[1].track.track, 1);
  EXPECT_EQ(placed[2].track.tracks, 1);
  EXPECT_EQ(placed[2].x.start, 60);
}

std::vector<std::pair<std::size_t, std::size_t>> ends_of(const std::vector<Extent>& pixels) {
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  for (const Run& run : runs_of(pixels)) ends.emplace_back(run.first, run.end);
  return ends;
}

// Of six boxes of half a pixel without gaps four pixels would hold eight: one run. The wide one stands alone, and so does what
// follows a gap of a pixel. Twenty of half a pixel: runs of eight, eight, four.
TEST(Picture, BoxesTooNarrowToBeSeenAreDrawnTogether) {
  std::vector<Extent> pixels;
  for (int i = 0; i < 6; ++i) pixels.push_back({0.5 * i, 0.5 * (i + 1)});
  pixels.insert(pixels.end(), {{3, 5}, {5, 5.5}, {6.5, 7}});
  EXPECT_EQ(ends_of(pixels), (std::vector<std::pair<std::size_t, std::size_t>>{{0, 6}, {6, 7}, {7, 8}, {8, 9}}));
  pixels.clear();
  for (int i = 0; i < 20; ++i) pixels.push_back({0.5 * i, 0.5 * (i + 1)});
  EXPECT_EQ(ends_of(pixels), (std::vector<std::pair<std::size_t, std::size_t>>{{0, 8}, {8, 16}, {16, 20}}));
}

// 4,000 rounds of F (2), I (1), W (1), nothing (1) over at most 2,200 pixels: a round takes 0.55, so each colour is seen by its
// share alone. 24 pixels high: F takes 2/5 of them, I and W 1/5 each, and 1/5 stays idle.
TEST(Picture, ALongStepShowsTheSharesOfItsPasses) {
  Picture picture;
  picture.lanes.resize(1);
  const ActionKind kinds[] = {ActionKind::F, ActionKind::I, ActionKind::W};
  for (int round = 0; round < 4000; ++round) {
    double at = 5.0 * round;
    for (const ActionKind kind : kinds) {
      const double length = kind == ActionKind::F ? 2 : 1;
      picture.lanes[0].boxes.push_back({{at, at + length, {.kind = kind}, ""}});
      at += length;
    }
  }
  picture.end = 20000;
  const std::string svg = to_svg(picture);
  EXPECT_THAT(svg, HasSubstr("too narrow to be seen: heights are shares of the time"));
  double area[3] = {};
  for (int k = 0; k < 3; ++k) {
    const std::string start = std::string("<path class=\"") + "FIW"[k] + "0\" d=\"";
    const std::size_t from = svg.find(start);
    ASSERT_NE(from, std::string::npos);
    std::istringstream path(svg.substr(from + start.size(), svg.find('"', from + start.size()) - from - start.size()));
    double x, y, width, height, back;
    char m, h, v, other, z;
    while (path >> m >> x >> y >> h >> width >> v >> height >> other >> back >> z) area[k] += width * height;
  }
  const double whole = 24 * lay_out(picture).width;
  EXPECT_NEAR(area[0] / whole, 0.4, 0.02);
  EXPECT_NEAR(area[1] / whole, 0.2, 0.02);
  EXPECT_NEAR(area[2] / whole, 0.2, 0.02);
}

TEST(Picture, TheLimitIsInTheLegendWhereItIsDrawn) {
  Picture picture;
  picture.end = 1;
  picture.memory_name = "memory allocated";
  picture.memory_limit = 100;
  picture.lanes.resize(1);
  picture.lanes[0].memory = {{0, 80}};
  picture.lanes[0].peak = 80;
  EXPECT_THAT(to_svg(picture), HasSubstr("limit of a device<"));
  picture.lanes[0].peak = 70;  // the limit is more than 1.3 times as high: it is not drawn
  EXPECT_THAT(to_svg(picture), Not(HasSubstr("limit of a device<")));
}

TEST(Picture, OfATimeline) {
  // Device 0 computes 0F0 for 2 ms and sends for 1 ms while 0F1 runs; device 1 copies its spans and is left out.
  Timeline timeline;
  timeline.kind = TimelineKind::Simulated;
  timeline.step_time = Duration(0.004);
  Span pass;
  pass.lane = Lane::Compute;
  pass.action.kind = ActionKind::F;
  pass.action.stage = 0;
  pass.action.microbatch = 0;
  pass.end = Duration(0.002);
  Span second = pass;
  second.action.microbatch = 1;
  second.start = Duration(0.002);
  second.end = Duration(0.004);
  Span send = pass;
  send.lane = Lane::Send;
  send.action.kind = ActionKind::SendF;
  send.start = Duration(0.002);
  send.end = Duration(0.003);
  send.bytes = Bytes(2 << 20);
  timeline.spans = {pass, second, send};
  DeviceTimeline device;
  device.memory = {{Duration(0), Bytes(1 << 30)}, {Duration(0.002), Bytes(3LL << 30)}};
  device.peak = Bytes(3LL << 30);
  device.limit = Bytes(2LL << 30);
  DeviceTimeline copy;
  copy.device = 1;
  copy.same_as = 0;
  timeline.devices = {device, copy};
  const Picture picture = picture_of(timeline, "my");
  ASSERT_EQ(picture.lanes.size(), 1U);
  EXPECT_EQ(picture.time_unit, "ms");
  EXPECT_EQ(picture.lanes[0].boxes.size(), 2U);
  EXPECT_EQ(picture.lanes[0].stripes.size(), 1U);
  const std::string svg = to_svg(picture);
  EXPECT_EQ(broken_markup(svg), "");
  EXPECT_THAT(svg, HasSubstr("my: simulated"));
  EXPECT_THAT(svg, HasSubstr("0SEND_F0: 2 to 3 ms, 2.00 MiB"));
  EXPECT_THAT(svg, HasSubstr("peak 3.00 GiB"));
  EXPECT_THAT(svg, HasSubstr("class=\"small over\""));  // above the limit of 2 GiB
  EXPECT_THAT(svg, HasSubstr("more than a device may use"));
}

TEST(Picture, ShadesGoFromLightToDark) {
  EXPECT_EQ(shade_count(1), 1);
  EXPECT_EQ(shade_count(9), 4);
  EXPECT_EQ(shade_of(1, 2), 1);
  EXPECT_EQ(shade_of(5, 9), 1);
}

}  // namespace
}  // namespace panpipe::present
