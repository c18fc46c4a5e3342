#include "validation/runs/csv_table.hpp"

#include <fmt/format.h>

#include "base/files/files_read.hpp"
#include "base/input/error_with_caret.hpp"
#include "base/input/source_text.hpp"

namespace panpipe::validation {
namespace {

// Walks the text and keeps the place.
class Scanner {
 public:
  explicit Scanner(const std::string& text) : text_(text) {}
  bool ended() const { return at_ >= text_.size(); }
  char next() const { return ended() ? '\0' : text_[at_]; }
  char take() {
    const char c = text_[at_++];
    const bool starts = (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // of a character in UTF-8
    if (c == '\n') {
      ++line_;
      column_ = 1;
    } else if (starts) {
      ++column_;
    }
    return c;
  }
  CsvCell here() const { return {"", line_, column_}; }

 private:
  const std::string& text_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
};

CsvCell take_cell(Scanner& scanner, const CsvTable& table) {
  CsvCell cell = scanner.here();
  if (scanner.next() != '"') {
    while (!scanner.ended() && scanner.next() != ',' && scanner.next() != '\n') cell.text += scanner.take();
    return cell;
  }
  scanner.take();
  for (;;) {
    if (scanner.ended()) throw InputError({diagnostic_at(table, cell, "this quote is not closed")});
    const char c = scanner.take();
    if (c != '"') {
      cell.text += c;
    } else if (scanner.next() == '"') {
      cell.text += scanner.take();
    } else {
      break;
    }
  }
  if (!scanner.ended() && scanner.next() != ',' && scanner.next() != '\n')
    throw InputError({diagnostic_at(table, scanner.here(), "a comma or the end of the line must follow a quoted cell")});
  return cell;
}

std::vector<CsvCell> take_row(Scanner& scanner, const CsvTable& table) {
  std::vector<CsvCell> row{take_cell(scanner, table)};
  while (!scanner.ended() && scanner.next() == ',') {
    scanner.take();
    row.push_back(take_cell(scanner, table));
  }
  if (!scanner.ended()) scanner.take();
  return row;
}

}  // namespace

std::optional<std::size_t> CsvTable::place_of(std::string_view column) const {
  for (std::size_t c = 0; c < heading.size(); ++c)
    if (heading[c].text == column) return c;
  return std::nullopt;
}

Diagnostic diagnostic_at(const CsvTable& table, const CsvCell& cell, const std::string& message, const std::string& help) {
  return render_diagnostic(*table.source, false, cell.line, cell.column, "", message, help);
}

CsvTable load_csv(const std::string& path) {
  report_file_read(path);
  auto source = std::make_shared<SourceText>();
  source->name = path;
  const std::string text = checked_text(read_text_file(path), *source);
  CsvTable table;
  table.source = source;
  Scanner scanner(text);
  while (!scanner.ended()) {
    std::vector<CsvCell> row = take_row(scanner, table);
    if (row.size() == 1 && row.front().text.empty()) continue;  // an empty line
    if (table.heading.empty()) {
      table.heading = std::move(row);
      continue;
    }
    if (row.size() != table.heading.size())
      throw InputError({diagnostic_at(
          table, row.front(), fmt::format("this row has {} cells, but the heading has {}", row.size(), table.heading.size()),
          "write a cell that holds a comma in quotes")});
    table.rows.push_back(std::move(row));
  }
  if (table.heading.empty()) throw InputError({diagnostic_of_file(path, "the file is empty: a heading is needed")});
  return table;
}

}  // namespace panpipe::validation
