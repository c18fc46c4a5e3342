// A cell of a comma-separated file. It is quoted when it holds a comma, a quote or a line end, as spreadsheets expect.
#pragma once

#include <string>
#include <string_view>

namespace panpipe {

inline std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

}  // namespace panpipe
