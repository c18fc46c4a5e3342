// Plots as text: what is drawn, what is left out, which points are best.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "present/page/plots.hpp"
#include "tests/present/page/page_markup.hpp"

namespace panpipe::present {
namespace {

using testing::HasSubstr;
using testing::Not;

const double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(PagePlots, ScatterWithBandHasBothAxesAlike) {
  Scatter plot;
  plot.title = "measured against predicted";
  plot.x = {"measured, s", AxisKind::Log};
  plot.y = {"predicted, s", AxisKind::Log};
  plot.band = 0.1;
  plot.series = {"A100", "RTX 3090"};
  plot.points = {{1, 1.1, 0, "first", false}, {40, 38, 1, "second", false}};
  const std::string html = to_html(plot);
  EXPECT_EQ(broken_markup(html), "");
  EXPECT_EQ(count(html, "class=\"m f0\""), 1U);
  EXPECT_EQ(count(html, "class=\"m f1\""), 1U);
  EXPECT_EQ(count(html, "<title>first</title>"), 1U);
  EXPECT_EQ(count(html, "<title>within 10 %</title>"), 1U);
  EXPECT_EQ(count(html, "class=\"diagonal\""), 1U);
  EXPECT_EQ(count(html, ">50</text>"), 2U);  // both axes end at 50
  EXPECT_EQ(count(html, "<li>"), 2U);
  EXPECT_THAT(html, Not(HasSubstr("left out")));
}

// To the right of the mark; to its left where the plot would end before the label.
TEST(PagePlots, LabelsStandNextToTheirMarks) {
  Scatter plot;
  plot.points = {{1, 1, 0, "", false, "early & long"}, {10, 1, 0, "", false, "late"}, {5, 2, 0, "", false}};
  const std::string html = to_html(plot);
  EXPECT_EQ(broken_markup(html), "");
  EXPECT_EQ(count(html, "<text class=\"label\" x=\"7\" y=\"-6\">early &amp; long</text>"), 1U);
  EXPECT_EQ(count(html, "<text class=\"label end\" x=\"-7\" y=\"-6\">late</text>"), 1U);
  EXPECT_EQ(count(html, "class=\"label"), 2U);
}

TEST(PagePlots, OneSeriesNeedsNoLegend) {
  Scatter plot;
  plot.series = {"only"};
  plot.points = {{1, 1, 0, "", false}};
  EXPECT_EQ(count(to_html(plot), "legend"), 0U);
}

TEST(PagePlots, PointsWithoutAPlaceAreCounted) {
  Scatter plot;
  plot.x = {"x", AxisKind::Log};
  plot.points = {{0, 1, 0, "", false}, {kNone, 1, 0, "", false}, {2, 3, 0, "", false}};
  const std::string html = to_html(plot);
  EXPECT_THAT(html, HasSubstr("(2 without a value that can be shown are left out)"));
  EXPECT_EQ(count(html, "class=\"m "), 1U);
  plot.points.erase(plot.points.begin());
  EXPECT_THAT(to_html(plot), HasSubstr("(1 without a value that can be shown is left out)"));
}

TEST(PagePlots, EmptyPlotsAreWhole) {
  EXPECT_EQ(broken_markup(to_html(Scatter{})), "");
  EXPECT_EQ(broken_markup(to_html(Lines{})), "");
  EXPECT_EQ(broken_markup(to_html(Bars{})), "");
  Scatter band;
  band.band = 0.1;
  band.front = true;
  EXPECT_EQ(broken_markup(to_html(band)), "");
  for (const std::string& html : {to_html(Scatter{}), to_html(Lines{}), to_html(Bars{}), to_html(band)}) {
    EXPECT_THAT(html, Not(HasSubstr("nan")));
    EXPECT_THAT(html, Not(HasSubstr("inf")));
  }
}

TEST(PagePlots, FrontByHand) {
  // (1,9) (2,4) (5,1) are best; (2,6) is behind (2,4), (6,1) behind (5,1), (0,0) is hollow.
  const std::vector<Point> points = {{6, 1, 0, "", false}, {2, 6, 0, "", false}, {1, 9, 0, "", false}, {5, 1, 0, "", false},
                                     {2, 4, 0, "", false}, {0, 0, 0, "", true},  {2, 4, 0, "", false}, {kNone, 0, 0, "", false}};
  EXPECT_EQ(pareto_front(points), (std::vector<std::size_t>{2, 4, 3}));
}

TEST(PagePlots, FrontEqualsItsDefinition) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> value(0, 12);
  for (int round = 0; round < 200; ++round) {
    std::vector<Point> points;
    for (int i = 0; i < 25; ++i)
      points.push_back({static_cast<double>(value(random)), static_cast<double>(value(random)), 0, "", false});
    std::vector<std::size_t> best;  // nothing else at or below in both; of equal ones the first
    for (std::size_t i = 0; i < points.size(); ++i) {
      bool beaten = false;
      for (std::size_t j = 0; j < points.size(); ++j) {
        const bool equal = points[j].x == points[i].x && points[j].y == points[i].y;
        beaten |= equal ? j < i : points[j].x <= points[i].x && points[j].y <= points[i].y;
      }
      if (!beaten) best.push_back(i);
    }
    std::sort(best.begin(), best.end(), [&](auto a, auto b) { return points[a].x < points[b].x; });
    EXPECT_EQ(pareto_front(points), best);
  }
}

TEST(PagePlots, LinesBreakWhereAValueIsMissing) {
  Lines plot;
  plot.x = {"pipeline", AxisKind::Linear};
  plot.lines = {{"1f1b", {{0, 4, 0, "a", false}, {1, kNone, 0, "", false}, {2, 2, 0, "b", false}, {3, 1, 0, "c", false}}},
                {"gpipe", {{0, 5, 0, "d", false}}}};
  const std::string html = to_html(plot);
  EXPECT_EQ(broken_markup(html), "");
  const std::size_t at = html.find("class=\"line l0 d0\" d=\"");
  ASSERT_NE(at, std::string::npos);
  const std::string path = html.substr(at, html.find('>', at) - at);
  EXPECT_EQ(count(path, "M"), 2U);
  EXPECT_EQ(count(path, "L"), 1U);
  EXPECT_EQ(count(html, "class=\"m f0\""), 3U);
  EXPECT_EQ(count(html, "class=\"m f1\""), 1U);
  EXPECT_THAT(html, HasSubstr("(1 without"));
}

TEST(PagePlots, StackedBarsLieSideBySide) {
  Bars plot;
  plot.value = {"s", AxisKind::Linear};
  plot.parts = {"compute", "bubble"};
  plot.bars = {{"rank 0", {3, 1}, ""}, {"rank 1", {2, 2}, "slow"}};
  const std::string html = to_html(plot);
  EXPECT_EQ(broken_markup(html), "");
  EXPECT_EQ(count(html, "class=\"b f0\""), 2U);
  EXPECT_EQ(count(html, "class=\"b f1\""), 2U);
  EXPECT_THAT(html, HasSubstr("<title>rank 0, bubble: 1</title>"));
  EXPECT_THAT(html, HasSubstr("<title>rank 1, compute: 2\nslow</title>"));
}

TEST(PagePlots, LongNamesAreCutAtWholeCharactersAndKeptInTheHint) {
  Bars plot;
  const std::string whole(62, 'a'), name = whole + "é567890";  // 64 bytes are the most, and é has two
  plot.bars = {{name, {1}, ""}};
  const std::string html = to_html(plot);
  EXPECT_THAT(html, HasSubstr(">" + whole + "…<"));
  EXPECT_THAT(html, HasSubstr("<title>" + name + "</title>"));
}

// Letters keep their size, so that charts are as wide as their place: nothing stands at a pixel along x inside the area.
TEST(PagePlots, ChartsTakeTheWidthOfTheirPlace) {
  Scatter plot;
  plot.x = {"GiB", AxisKind::FromZero};
  plot.y = {"ms", AxisKind::Linear};
  plot.front = true;
  plot.points = {{0, 140, 0, "", false}, {5, 135, 0, "", false}, {10, 131, 0, "", false}};
  const std::string html = to_html(plot);
  EXPECT_THAT(html, HasSubstr("<svg class=\"plot\" width=\"100%\""));
  EXPECT_THAT(html, HasSubstr("<svg class=\"at\" x=\"50%\""));  // 5 of 0 to 10
  EXPECT_THAT(html, HasSubstr("<svg class=\"outlines\" viewBox=\"0 0 720 "));
  EXPECT_THAT(html, HasSubstr("<path class=\"front\" d=\"M0 "));
  // 131 to 140 on 380 pixels: ticks of 2 (at least 60 pixels apart) from 130 on. An axis that starts at 0 has no note.
  EXPECT_THAT(html, HasSubstr(">ms (the axis starts at 130)</text>"));
  EXPECT_THAT(html, HasSubstr(">GiB</text>"));
}

TEST(PagePlots, LegendsNameWhatIsDrawnOnly) {
  Lines lines;
  lines.lines = {{"1f1b", {{0, 4, 0, "", false}}}, {"stp", {{0, kNone, 0, "", false}}}, {"gpipe", {{0, 5, 0, "", false}}}};
  const std::string html = to_html(lines);
  EXPECT_EQ(count(html, "<li>"), 2U);
  EXPECT_THAT(html, Not(HasSubstr("stp")));
  EXPECT_THAT(html, HasSubstr("<path class=\"f2\"")) << "the third keeps its colour";
  Bars bars;
  bars.parts = {"compute", "copies"};
  bars.bars = {{"rank 0", {3, 0}, ""}};
  EXPECT_THAT(to_html(bars), Not(HasSubstr("copies")));
}

// Short names stand left of their bars, long ones above; a bar without values is a heading; labels stand at the ends.
TEST(PagePlots, NamesHeadingsAndLabelsOfBars) {
  Bars plot;
  plot.bars = {{"zb-h1", {}, ""}, {"a", {2}, "", "2 ms"}, {"b", {4}, "", "4 ms, +100.0 %", true}};
  const std::string html = to_html(plot);
  EXPECT_EQ(broken_markup(html), "");
  EXPECT_EQ(count(html, "class=\"head\""), 1U);
  EXPECT_EQ(count(html, "<text class=\"end\" x=\"-6\""), 2U);
  EXPECT_EQ(count(html, "class=\"b f0\" x=\"0%\""), 1U);
  EXPECT_EQ(count(html, "class=\"b h0\" x=\"0%\""), 1U);
  EXPECT_THAT(html, HasSubstr("<text class=\"label\" x=\"50%\" dx=\"6\""));  // the axis ends at 4
  plot.bars[1].name = "{pipeline: 4, tensor: 2, data: 2}";
  const std::string above = to_html(plot);
  EXPECT_EQ(count(above, "class=\"end\""), 0U);
  EXPECT_THAT(above, HasSubstr(">{pipeline: 4, tensor: 2, data: 2}</text>"));
}

}  // namespace
}  // namespace panpipe::present
