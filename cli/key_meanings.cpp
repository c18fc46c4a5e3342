#include "cli/key_meanings.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

namespace panpipe::cli {

extern const char* const kFileFormats;  // the document, made by the build

namespace {

// The cells of a row of a table; "\|" is a bar inside a cell.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|')
      cells.back() += line[++i];
    else if (line[i] == '|')
      cells.emplace_back();
    else
      cells.back() += line[i];
  }
  return cells;
}

// "see [there](x.md)" as "see there"; code without its marks.
std::string plain(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t middle = text[i] == '[' ? text.find(']', i) : std::string::npos;
    const bool link = middle != std::string::npos && middle + 1 < text.size() && text[middle + 1] == '(';
    if (link) {
      out += plain(text.substr(i + 1, middle - i - 1));
      i = text.find(')', middle);
      if (i == std::string::npos) break;
    } else if (text[i] != '`') {
      out += text[i];
    }
  }
  const std::size_t begin = out.find_first_not_of(' '), end = out.find_last_not_of(' ');
  return begin == std::string::npos ? "" : out.substr(begin, end - begin + 1);
}

std::map<std::string, std::string> meanings() {
  std::map<std::string, std::string> found;
  std::string_view text = kFileFormats;
  bool inside = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with('|')) inside = false;
    if (line.starts_with("| key | default | meaning |")) inside = true;
    const std::vector<std::string> cells = inside ? cells_of(line) : std::vector<std::string>();
    if (cells.size() < 3) continue;
    for (std::size_t begin = cells[0].find('`'); begin != std::string::npos; begin = cells[0].find('`', begin)) {
      const std::size_t end = cells[0].find('`', begin + 1);
      if (end == std::string::npos) break;
      if (const std::string meaning = plain(cells[2]); !meaning.empty())
        found.emplace(cells[0].substr(begin + 1, end - begin - 1), meaning);
      begin = end + 1;
    }
  }
  return found;
}

}  // namespace

std::string meaning_of(const std::string& path) {
  static const std::map<std::string, std::string> known = meanings();
  const auto found = known.find(path);
  return found != known.end() ? found->second : "";
}

}  // namespace panpipe::cli
