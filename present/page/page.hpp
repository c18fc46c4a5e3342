// One self-contained HTML page: headings, notes, key figures, sortable tables, plots. It loads nothing, follows the reader's
// light or dark screen, prints, and works from the keyboard. All text is escaped here; callers pass plain text.
//
//   Page page("Validation", "panpipe validate runs.csv");
//   page.figures({{"mean error", "3.9 %", "over 495 rows"}, {"worst", "21 %", "row 17"}});
//   page.heading("Rows");
//   Table table;
//   table.columns = {{"id"}, {"measured", "s", true}, {"error", "%", true}};
//   table.rows.push_back({words("mt-nlg"), number(60.1, 3), number(-4.2, 1, Tone::Bad)});
//   page.add(table);
//   Scatter plot;                       // plots.hpp
//   plot.x = {"measured, s", AxisKind::Log};
//   plot.y = {"predicted, s", AxisKind::Log};
//   plot.band = 0.10;                         // y = x and a band of 10 % to both sides
//   plot.series = {"A100", "RTX 3090"};
//   plot.points.push_back({60.1, 57.6, 0, "mt-nlg: 57.6 s predicted, 60.1 s measured"});
//   page.add(plot);
//   write_file("page.html", page.to_html());  // base/files/files_write.hpp
#pragma once

#include <string>
#include <vector>

#include "present/page/page_table.hpp"
#include "present/page/plots.hpp"

namespace panpipe::present {

// A number in large print at the top of a page.
struct Figure {
  std::string name, value, hint;
  Tone tone = Tone::Plain;
};

class Page {
 public:
  // `subtitle` may be empty.
  Page(std::string title, std::string subtitle);

  Page& heading(const std::string& text);     // a section; three or more produce a table of contents
  Page& subheading(const std::string& text);  // inside a section
  Page& note(const std::string& text);        // a paragraph
  Page& list(const std::vector<std::string>& items);
  Page& figures(const std::vector<Figure>& figures);
  // Unchanged text in a fixed-width font; folded under `summary` if that is not empty.
  Page& preformatted(const std::string& text, const std::string& summary = "");
  Page& add(const Table& table);
  Page& add(const Scatter& plot);
  Page& add(const Lines& plot);
  Page& add(const Bars& plot);
  Page& picture(const std::string& name, const std::string& svg);  // scrolls sideways if the window is narrower
  // Figures (to_html of a plot) side by side if the window has room, else stacked.
  Page& side_by_side(const std::vector<std::string>& figures);

  // For parts with their own markup or script. The text must already be safe.
  Page& add_markup(const std::string& html);
  Page& add_style(const std::string& css);
  Page& add_script(const std::string& script);  // runs once after the page is loaded; each in its own scope

  std::string to_html() const;

 private:
  std::string contents() const;

  std::string title_, subtitle_, body_, styles_, scripts_;
  std::vector<std::string> headings_;
};

}  // namespace panpipe::present
