// The header lines of a schedule file (#pipeline, #chain, #place) as written, not yet checked against the rows.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe {

struct CsvLine {
  int number;
  std::string_view text;
};

struct CsvHeader {
  std::map<std::string, int> stated;  // from #pipeline, by key
  std::optional<CsvLine> pipeline_line, place_line;
  std::vector<CsvLine> chain_lines;
  std::vector<std::vector<int>> chains;
  std::vector<int> place;  // rank of each stage
};

using CsvFault =
    std::function<void(const CsvLine& line, std::size_t column, const std::string& message, const std::string& help)>;

// Reads a line that starts with '#' and is not a comment.
void read_csv_header(const CsvLine& line, CsvHeader& header, const CsvFault& add_fault);

}  // namespace panpipe
