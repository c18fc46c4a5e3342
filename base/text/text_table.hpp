// A table for people. Its columns are as wide as their cells, in the style of the output.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/text_style.hpp"

namespace panpipe {

// "time" makes a column of figures, aligned right; "<name" a column of words, aligned left.
struct TextColumn {
  TextColumn(const std::string& spec) : head(spec.starts_with('<') ? spec.substr(1) : spec), words(spec.starts_with('<')) {}
  TextColumn(const char* spec) : TextColumn(std::string(spec)) {}

  // The least width in columns of the terminal, even if the cells need fewer.
  TextColumn least(std::size_t columns) && { return least_ = columns, *this; }
  // If lines are too wide for the terminal, numbered columns are dropped, the lowest number first ...
  TextColumn importance(int number) && { return importance_ = number, *this; }
  // ... then the cells of a shrinking column are shortened, to at least `columns`.
  TextColumn shrinks_to(std::size_t columns) && { return shrinks_to_ = columns, *this; }

  std::string head;
  bool words = false;
  std::size_t least_ = 0, shrinks_to_ = 0;  // 0: never
  std::optional<int> importance_;
};

class TextTable {
 public:
  // Starts with the heads of the columns, if any, in bold when colours are on.
  explicit TextTable(std::vector<TextColumn> columns, std::size_t indent = 2);

  void row(std::vector<std::string> cells);  // colour codes take no columns; cells that are not given are empty
  void line(std::string text);               // a line between rows, unchanged

  // Every line ends with "\n" and has no trailing blanks. If the last column holds words and the terminal is too narrow for it,
  // its cells continue on the next line.
  std::string text(const TextStyle& style = {}) const;

 private:
  struct Line {
    bool is_row = false, is_head = false;
    std::vector<std::string> cells;  // a line has one
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
