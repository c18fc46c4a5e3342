// A table for people: columns as wide as what stands in them, in the style of where it is shown.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/text_style.hpp"

namespace panpipe {

// "time": figures, which stand on the right; "<name": words, which stand on the left.
struct TextColumn {
  TextColumn(const std::string& spec) : head(spec.starts_with('<') ? spec.substr(1) : spec), words(spec.starts_with('<')) {}
  TextColumn(const char* spec) : TextColumn(std::string(spec)) {}

  // Columns of the terminal, also where its cells need fewer.
  TextColumn least(std::size_t columns) && { return least_ = columns, *this; }
  // Where lines are too wide for the terminal, columns with a number are left out, that of the lowest number first ...
  TextColumn telling(int number) && { return telling_ = number, *this; }
  // ... then the cells of one that shrinks are shortened, to so many columns at least.
  TextColumn shrinks_to(std::size_t columns) && { return shrinks_to_ = columns, *this; }

  std::string head;
  bool words = false;
  std::size_t least_ = 0, shrinks_to_ = 0;  // 0: never
  std::optional<int> telling_;
};

class TextTable {
 public:
  // Begins with the columns' heads, where they have any: bold where colours are shown.
  explicit TextTable(std::vector<TextColumn> columns, std::size_t indent = 2);

  void row(std::vector<std::string> cells);  // colours take no columns; cells that are not given are empty
  void line(std::string text);               // between rows, as it is

  // Every line with its "\n", without blanks at its end. Where the last column holds words and the terminal is too narrow for
  // it, it goes on below itself.
  std::string text(const TextStyle& style = {}) const;

 private:
  struct Line {
    bool is_row = false, is_head = false;
    std::vector<std::string> cells;  // a line: one
  };
  struct Shown {
    std::size_t column = 0, width = 0;
  };

  std::vector<Shown> shown_columns(const TextStyle& style) const;

  std::vector<TextColumn> columns_;
  std::size_t indent_;
  std::vector<Line> lines_;
};

}  // namespace panpipe
