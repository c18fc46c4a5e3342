// Pages: whole, self-contained, and no text of a file or a flag can become markup.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "present/page/page.hpp"
#include "tests/present/page/page_markup.hpp"

namespace panpipe::present {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kEvil = "</script><script>alert(\"x\")</script> & 'y'\x01";
const std::string kTame = "&lt;/script&gt;&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; 'y'";

Table table_of(const std::string& text) {
  Table table;
  table.caption = text;
  table.columns = {{text, text, false, text}, {"n", "s", true, ""}, {"parts", "", false, ""}};
  table.parts = {text, "rest"};
  table.rows = {{words(text), number(2.5, 1), TableCell{text, 1.0, Tone::Bad, text, {1, 3}}}};
  return table;
}

TEST(Page, EscapesEverything) {
  Page page(kEvil, kEvil);
  page.heading(kEvil).subheading(kEvil).note(kEvil).list({kEvil}).figures({{kEvil, kEvil, kEvil, Tone::Good}});
  page.preformatted(kEvil, kEvil).add(table_of(kEvil));
  Scatter scatter{kEvil, {kEvil, AxisKind::Linear}, {kEvil, AxisKind::Linear}, {kEvil, kEvil}, {{1, 1, 0, kEvil, false}}, 0.1,
                  true};
  page.add(scatter);
  page.add(Lines{kEvil, {kEvil, AxisKind::Linear}, {kEvil, AxisKind::Log}, {{kEvil, {{0, 1, 0, kEvil, false}}}}});
  page.add(Bars{kEvil, {kEvil, AxisKind::Linear}, {kEvil, kEvil}, {{kEvil, {1, 2}, kEvil}}});
  page.heading("two").heading("three");  // a list of contents
  const std::string html = page.to_html();
  EXPECT_THAT(html, Not(HasSubstr("alert(\"x\")")));
  EXPECT_EQ(count(html, "<script>"), 1U);
  EXPECT_EQ(count(html, "</script>"), 1U);
  EXPECT_EQ(html.find('\x01'), std::string::npos);
  EXPECT_GE(count(html, kTame), 20U);
}

TEST(Page, LoadsNothing) {
  Page page("title", "");
  page.heading("a").add(table_of("x")).add(Scatter{});
  const std::string html = page.to_html();
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  for (const char* loading : {"src=\"", "http://", "https://", "@import", "url("})
    EXPECT_THAT(html, Not(HasSubstr(loading))) << loading;
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(html, HasSubstr("@media print"));
}

// Seven stand as four and three, not as six and a last one alone; a row takes six.
TEST(Page, FiguresStandInEvenRows) {
  for (const auto& [count, columns] : {std::pair(1, 1), std::pair(6, 6), std::pair(7, 4), std::pair(9, 5), std::pair(13, 5)}) {
    Page page("t", "");
    page.figures(std::vector<Figure>(static_cast<std::size_t>(count), Figure{"a", "1", ""}));
    EXPECT_THAT(page.to_html(), HasSubstr("--columns: " + std::to_string(columns) + "\"")) << count;
  }
}

TEST(Page, ThreeHeadingsMakeContents) {
  Page page("t", "");
  page.heading("one").heading("two");
  EXPECT_THAT(page.to_html(), Not(HasSubstr("<nav")));
  page.heading("three");
  EXPECT_THAT(page.to_html(), HasSubstr("<li><a href=\"#s3\">three</a></li>"));
  EXPECT_THAT(page.to_html(), HasSubstr("<h2 id=\"s3\">three</h2>"));
}

// As an address: no character of the picture ends the attribute, and nothing is loaded.
TEST(Page, PictureIsInsideThePage) {
  Page page("t", "");
  page.picture("a \"new\" order", "<svg id=\"x\">50% #1 & more</svg>\n");
  const std::string html = page.to_html();
  EXPECT_THAT(html, HasSubstr("alt=\"a &quot;new&quot; order\" "
                              "src=\"data:image/svg+xml,%3Csvg id=%22x%22%3E50%25 %231 %26 more%3C/svg%3E \"/>"));
  EXPECT_THAT(html, Not(HasSubstr("<svg id")));
}

TEST(PageTable, SortsByValuesThatStandInTheCells) {
  Table table;
  table.columns = {{"id", "", false, ""}, {"step", "ms", true, "of the slowest"}};
  table.rows = {{words("a"), number(1234.5678, 2)}, {words("b"), number(std::nan(""), 2)}};
  const std::string html = to_html(table);
  EXPECT_EQ(broken_markup(html), "");
  EXPECT_THAT(html, HasSubstr("<td class=\"num\" data-v=\"1234.5678\">1234.57</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"num\">–</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"col\" class=\"num\" title=\"of the slowest\"><button type=\"button\">step <span "
                              "class=\"soft\">ms</span></button></th>"));
  table.sortable = false;
  EXPECT_EQ(count(to_html(table), "<button"), 0U);
}

TEST(PageTable, ShortCellsStayOnOneLine) {
  Table table;
  table.columns = {{"parallel", "", false, ""}, {"verdict", "", false, ""}};
  table.rows = {{words("{pipeline: 4, tensor: 2, data: 2}"), words(std::string(49, 'x'), Tone::Bad)}};
  const std::string html = to_html(table);
  EXPECT_THAT(html, HasSubstr("<td>{pipeline: 4"));
  EXPECT_THAT(html, HasSubstr("<td class=\"bad long\">xxx"));
}

TEST(PageTable, EmptyTablesAndBarsWithoutLength) {
  Table table;
  table.columns = {{"id", "", false, ""}};
  EXPECT_EQ(broken_markup(to_html(table)), "");
  table.parts = {"x", "y"};
  table.rows = {{TableCell{"nothing", 0.0, Tone::Plain, "", {0, 0}}}};
  EXPECT_EQ(broken_markup(to_html(table)), "");
  EXPECT_THAT(to_html(table), Not(HasSubstr("nan")));
}

TEST(PageTable, RowsMustFit) {
  Table table;
  table.columns = {{"id", "", false, ""}};
  table.rows = {{words("a"), words("b")}};
  EXPECT_THROW(to_html(table), InternalError);
}

}  // namespace
}  // namespace panpipe::present
