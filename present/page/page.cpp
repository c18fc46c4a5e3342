#include "present/page/page.hpp"

#include <fmt/format.h>

#include "present/page/page_parts.hpp"
#include "present/picture/markup.hpp"

namespace panpipe::present {
namespace {

constexpr std::size_t kMostFigures = 6;  // in a row
constexpr std::size_t kFewHeadings = 3;  // from here on there is a list of contents

std::string class_attribute(Tone tone) {
  const std::string name = class_of(tone);
  return name.empty() ? "" : " class=\"" + name + "\"";
}

}  // namespace

Page::Page(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

Page& Page::heading(const std::string& text) {
  headings_.push_back(text);
  return add_markup(fmt::format("<h2 id=\"s{}\">{}</h2>\n", headings_.size(), escaped(text)));
}

Page& Page::subheading(const std::string& text) { return add_markup("<h3>" + escaped(text) + "</h3>\n"); }

Page& Page::note(const std::string& text) { return add_markup("<p>" + escaped(text) + "</p>\n"); }

Page& Page::list(const std::vector<std::string>& items) {
  std::string html = "<ul>\n";
  for (const std::string& item : items) html += "<li>" + escaped(item) + "</li>\n";
  return add_markup(html + "</ul>\n");
}

Page& Page::figures(const std::vector<Figure>& figures) {
  // As many in each row as in the others, or one more: none stands alone below a full row.
  const std::size_t rows = (figures.size() + kMostFigures - 1) / kMostFigures;
  const std::size_t columns = rows > 0 ? (figures.size() + rows - 1) / rows : 1;
  std::string html = fmt::format("<dl class=\"figures\" style=\"--columns: {}\">\n", columns);
  for (const Figure& figure : figures)
    html += fmt::format("<div><dt>{}</dt><dd{}>{}</dd>{}</div>\n", escaped(figure.name), class_attribute(figure.tone),
                        escaped(figure.value), figure.hint.empty() ? "" : "<dd>" + escaped(figure.hint) + "</dd>");
  return add_markup(html + "</dl>\n");
}

Page& Page::preformatted(const std::string& text, const std::string& summary) {
  const std::string block = "<pre>" + escaped(text) + "</pre>";
  return add_markup(summary.empty() ? block + "\n"
                                    : fmt::format("<details><summary>{}</summary>{}</details>\n", escaped(summary), block));
}

Page& Page::add(const Table& table) { return add_markup(present::to_html(table)); }
Page& Page::add(const Scatter& plot) { return add_markup(present::to_html(plot)); }
Page& Page::add(const Lines& plot) { return add_markup(present::to_html(plot)); }
Page& Page::add(const Bars& plot) { return add_markup(present::to_html(plot)); }

Page& Page::picture(const std::string& name, const std::string& svg) {
  return add_markup(fmt::format(
      "<figure><figcaption>{0}</figcaption><div class=\"wide\"><img class=\"picture\" alt=\"{0}\" src=\"{1}\"/></div></figure>\n",
      escaped(name), image_address(svg)));
}

Page& Page::side_by_side(const std::vector<std::string>& figures) {
  std::string html;
  for (const std::string& figure : figures) html += figure;
  return add_markup("<div class=\"side\">\n" + html + "</div>\n");
}

Page& Page::add_markup(const std::string& html) {
  body_ += html;
  return *this;
}

Page& Page::add_style(const std::string& css) {
  styles_ += css;
  return *this;
}

Page& Page::add_script(const std::string& script) {
  scripts_ += "{" + script + "}\n";
  return *this;
}

std::string Page::contents() const {
  if (headings_.size() < kFewHeadings) return "";
  std::string html = "<nav aria-label=\"contents\"><ol>\n";
  for (std::size_t i = 0; i < headings_.size(); ++i)
    html += fmt::format("<li><a href=\"#s{}\">{}</a></li>\n", i + 1, escaped(headings_[i]));
  return html + "</ol></nav>\n";
}

std::string Page::to_html() const {
  const std::string subtitle = subtitle_.empty() ? "" : "<p class=\"soft\">" + escaped(subtitle_) + "</p>\n";
  // The policy makes the browser itself refuse whatever a page would load.
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
             "'unsafe-inline'; img-src data:\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n"
             "<title>{}</title>\n<style>\n",
             escaped(title_)) +
         page_style() + styles_ + "</style>\n</head>\n<body>\n<header><h1>" + escaped(title_) + "</h1>\n" + subtitle +
         contents() + "</header>\n<main>\n" + body_ + "</main>\n<script>\n\"use strict\";\nconst panpipe = {};\n{" +
         page_script() + "}\n" + scripts_ + "</script>\n</body>\n</html>\n";
}

}  // namespace panpipe::present
