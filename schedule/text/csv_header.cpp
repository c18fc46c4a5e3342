#include "schedule/text/csv_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace panpipe {
namespace {

class HeaderReader {
 public:
  HeaderReader(CsvHeader& header, const CsvFault& add_fault) : header_(header), add_fault_(add_fault) {}

  void read(const CsvLine& line) {
    const std::size_t blank = std::min(line.text.find(' '), line.text.size());
    const std::string_view word = line.text.substr(1, blank - 1);
    std::string_view rest = line.text.substr(std::min(blank + 1, line.text.size()));
    const std::size_t column = line.text.size() - rest.size();
    if (word == "pipeline") return read_pipeline(line, rest, column);
    if (word == "chain") {
      header_.chain_lines.push_back(line);
      header_.chains.emplace_back();
      return read_list(line, rest, column, "stage", header_.chains.back());
    }
    if (word == "place") {
      if (header_.place_line)
        return add_fault_(line, 0, fmt::format("#place occurs twice; the first is in line {}", header_.place_line->number), "");
      header_.place_line = line;
      return read_list(line, rest, column, "rank", header_.place);
    }
    add_fault_(line, 0, fmt::format("unknown header line '#{}'", word),
               "header lines are #pipeline, #chain, #place; a comment starts with '# '");
  }

 private:
  static std::optional<int> read_number(std::string_view text) {
    int value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size() || value < 0 || value >= 1'000'000'000) return std::nullopt;
    return value;
  }

  void read_pipeline(const CsvLine& line, std::string_view rest, std::size_t column) {
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view item = rest.substr(0, end);
      if (!item.empty()) {
        const std::size_t equals = std::min(item.find('='), item.size());
        const std::string key(item.substr(0, equals));
        const auto value = equals < item.size() ? read_number(item.substr(equals + 1)) : std::nullopt;
        if (key != "ranks" && key != "microbatches" && key != "stages" && key != "seq_splits" && key != "vocabulary_barriers") {
          add_fault_(line, column, fmt::format("unknown key '{}' of #pipeline", key),
                     "keys are ranks, microbatches, stages, seq_splits, vocabulary_barriers");
        } else if (!value || *value < 1) {
          add_fault_(line, column, fmt::format("'{}' of #pipeline must be a whole number from 1", key),
                     fmt::format("write {}=4", key));
        } else if (!header_.stated.emplace(key, *value).second) {
          add_fault_(line, column, fmt::format("'{}' of #pipeline is given twice", key), "");
        }
        header_.pipeline_line = line;
      }
      const std::size_t step = std::min(end + 1, rest.size());
      rest.remove_prefix(step);
      column += step;
    }
  }

  void read_list(const CsvLine& line, std::string_view rest, std::size_t column, const char* what, std::vector<int>& list) {
    while (true) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      const auto value = read_number(rest.substr(0, end));
      if (!value)
        return add_fault_(line, column, fmt::format("'{}' is no {}", rest.substr(0, end), what),
                          "numbers from 0, with commas: 0,1,2,3");
      list.push_back(*value);
      if (end == rest.size()) return;
      rest.remove_prefix(end + 1);
      column += end + 1;
    }
  }

  CsvHeader& header_;
  const CsvFault& add_fault_;
};

}  // namespace

void read_csv_header(const CsvLine& line, CsvHeader& header, const CsvFault& add_fault) {
  HeaderReader(header, add_fault).read(line);
}

}  // namespace panpipe
