// A table that sorts by a column when its head is clicked (or Enter is pressed on it).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace panpipe::present {

enum class Tone : std::uint8_t { Plain, Good, Bad, Muted };
const char* class_of(Tone tone);  // class in the style sheet; may be empty

struct TableCell {
  std::string text;
  std::optional<double> value;  // sort key; if absent the text is, and in a column of numbers the row is sorted last
  Tone tone = Tone::Plain;
  std::string hint;           // shown under the mouse
  std::vector<double> parts;  // a small stacked bar instead of text: one share per Table::parts, none negative
};

TableCell words(std::string text, Tone tone = Tone::Plain);
// A number with `digits` decimals; "–" if it is not finite.
TableCell number(double value, int digits, Tone tone = Tone::Plain);

struct Column {
  std::string name, unit;
  bool numeric = false;  // aligned right; the first click sorts large values first
  std::string hint;
};

struct Table {
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<TableCell>> rows;  // each as long as `columns`
  std::vector<std::string> parts;            // names of the parts of stacked bars in cells
  bool sortable = true;
  std::vector<int> colours = {};  // of the parts, as in Bars
};

std::string to_html(const Table& table);

}  // namespace panpipe::present
