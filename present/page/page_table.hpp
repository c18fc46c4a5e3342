// A table whose columns sort at a click (or Enter) on their heads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace panpipe::page {

enum class Tone : std::uint8_t { Plain, Good, Bad, Muted };
const char* class_of(Tone tone);  // of the style sheet; may be empty

struct TableCell {
  std::string text;
  std::optional<double> value;  // what it is sorted by; absent: by its text, and in a column of numbers last
  Tone tone = Tone::Plain;
  std::string hint;           // under the mouse
  std::vector<double> parts;  // a small stacked bar in place of the text; as many as Table::parts, none negative
};

TableCell words(std::string text, Tone tone = Tone::Plain);
// With so many digits behind the point; "–" when it is not finite.
TableCell number(double value, int digits, Tone tone = Tone::Plain);

struct Column {
  std::string name, unit;
  bool numeric = false;  // to the right, and large ones first at the first click
  std::string hint;
};

struct Table {
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<TableCell>> rows;  // each as long as `columns`
  std::vector<std::string> parts;            // names of what the stacked bars in cells consist of
  bool sortable = true;
  std::vector<int> colours = {};  // of the parts, as in Bars
};

std::string to_html(const Table& table);

}  // namespace panpipe::page
