#include "present/page/page_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "present/page/chart.hpp"
#include "present/picture/markup.hpp"

namespace panpipe::present {
namespace {

constexpr double kBarWidth = 100;     // pixels, of a stacked bar in a cell
constexpr std::size_t kOneLine = 48;  // bytes; a longer cell may take several lines

std::string stacked_bar(const TableCell& cell, const Table& table) {
  const double total = std::accumulate(cell.parts.begin(), cell.parts.end(), 0.0);
  std::string bar = fmt::format(
      "<svg class=\"parts\" width=\"{0}\" height=\"12\" viewBox=\"0 0 {0} 12\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{1}\">",
      px(kBarWidth), escaped(cell.text));
  double x = 0;
  for (std::size_t i = 0; i < cell.parts.size() && total > 0; ++i) {
    const double width = kBarWidth * cell.parts[i] / total;
    const std::string name = i < table.parts.size() ? table.parts[i] : std::string();
    if (width > 0)
      bar += fmt::format("<rect class=\"f{}\" x=\"{}\" width=\"{}\" height=\"12\">{}</rect>", colour_of(table.colours, i), px(x),
                         px(width),
                         hint_element(fmt::format("{}: {:.4g} ({:.1f} %)", name, cell.parts[i], 100 * cell.parts[i] / total)));
    x += width;
  }
  return bar + "</svg>";
}

std::string cell_html(const TableCell& cell, const Column& column, const Table& table) {
  std::string classes = class_of(cell.tone);
  for (const auto& [name, applies] : {std::pair("num", column.numeric), std::pair("long", cell.text.size() > kOneLine)})
    if (applies) classes.append(classes.empty() ? "" : " ").append(name);
  std::string attributes = classes.empty() ? "" : fmt::format(" class=\"{}\"", classes);
  if (table.sortable && cell.value && std::isfinite(*cell.value)) attributes += fmt::format(" data-v=\"{}\"", *cell.value);
  if (!cell.hint.empty()) attributes += fmt::format(" title=\"{}\"", escaped(cell.hint));
  return fmt::format("<td{}>{}</td>", attributes, cell.parts.empty() ? escaped(cell.text) : stacked_bar(cell, table));
}

// A long key may break behind its points.
std::string breakable(const std::string& name) {
  std::string text;
  for (const char c : escaped(name)) {
    text += c;
    if (c == '.' || c == '_') text += "<wbr>";
  }
  return text;
}

std::string head_html(const Column& column, bool sortable) {
  const std::string name =
      breakable(column.name) + (column.unit.empty() ? "" : fmt::format(" <span class=\"soft\">{}</span>", escaped(column.unit)));
  const std::string attributes = (column.numeric ? " class=\"num\"" : "") +
                                 (column.hint.empty() ? std::string() : fmt::format(" title=\"{}\"", escaped(column.hint)));
  return fmt::format("<th scope=\"col\"{}>{}</th>", attributes,
                     sortable ? "<button type=\"button\">" + name + "</button>" : name);
}

}  // namespace

const char* class_of(Tone tone) {
  return tone == Tone::Good ? "good" : tone == Tone::Bad ? "bad" : tone == Tone::Muted ? "soft" : "";
}

TableCell words(std::string text, Tone tone) { return {std::move(text), std::nullopt, tone, "", {}}; }

TableCell number(double value, int digits, Tone tone) {
  if (!std::isfinite(value)) return {"–", std::nullopt, tone, "", {}};
  return {fmt::format("{:.{}f}", value, digits), value, tone, "", {}};
}

std::string to_html(const Table& table) {
  std::string html = fmt::format("<div class=\"wide\"><table{}>", table.sortable ? " class=\"sortable\"" : "");
  if (!table.caption.empty()) html += "<caption>" + escaped(table.caption) + "</caption>";
  html += "<thead><tr>";
  for (const Column& column : table.columns) html += head_html(column, table.sortable);
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    PANPIPE_CHECK(row.size() == table.columns.size(), "a row of a table has as many cells as the table has columns");
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) html += cell_html(row[i], table.columns[i], table);
    html += "</tr>\n";
  }
  html += "</tbody></table></div>\n";
  return (table.parts.empty() ? "" : legend(table.parts, true, table.colours)) + html;
}

}  // namespace panpipe::present
