// Reads a comma-separated file with a heading as spreadsheets write it: quoted cells may contain commas, doubled quotes and line
// ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/input/yaml_document.hpp"

namespace panpipe::validation {

struct CsvCell {
  std::string text;
  int line = 0, column = 0;  // of its first character, from 1
};

struct CsvTable {
  std::shared_ptr<const SourceText> source;
  std::vector<CsvCell> heading;
  std::vector<std::vector<CsvCell>> rows;  // same number of cells as the heading

  std::optional<std::size_t> place_of(std::string_view column) const;
};

// Throws InputError for a missing file, no heading, a row of another width, or an unclosed quote.
CsvTable load_csv(const std::string& path);

Diagnostic diagnostic_at(const CsvTable& table, const CsvCell& cell, const std::string& message, const std::string& help = "");

}  // namespace panpipe::validation
