// Schedules as text grids in tests: a line per rank, cells with blanks between them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe::test {

inline std::vector<std::string> rows_of(const Schedule& schedule) {
  std::vector<std::string> rows;
  for (const auto& order : schedule.order) {
    std::string row;
    for (std::size_t i = 0; i < order.size(); ++i)
      if (order[i].group_size != 0) {
        if (!row.empty()) row += ' ';
        row += cell_text(&order[i]);
      }
    rows.push_back(std::move(row));
  }
  return rows;
}

// The CSV of a grid: blanks become commas. `header` lines end in a newline.
inline Schedule from_rows(const std::vector<std::string>& rows, const std::string& header = "") {
  std::string text = header;
  for (std::string row : rows) {
    std::replace(row.begin(), row.end(), ' ', ',');
    text += row;
    text += "\r\n";
  }
  return read_schedule_csv(text, "order.csv");
}

inline std::string message_of(const std::vector<ScheduleProblem>& problems) {
  if (problems.empty()) return "legal";
  const ScheduleProblem& p = problems.front();
  std::string text = std::to_string(p.rank);
  text += ':';
  text += std::to_string(p.position);
  text += ' ';
  text += p.action;
  text += ' ';
  text += p.message;
  return text;
}

}  // namespace panpipe::test
