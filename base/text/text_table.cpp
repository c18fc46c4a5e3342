#include "base/text/text_table.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace panpipe {
namespace {

constexpr std::size_t kGap = 2;         // between columns
constexpr std::size_t kLastWords = 24;  // that a last column of words should have before it goes on below itself

}  // namespace

TextTable::TextTable(std::vector<TextColumn> columns, std::size_t indent) : columns_(std::move(columns)), indent_(indent) {
  Line heads{true, true, {}};
  for (const TextColumn& column : columns_) heads.cells.push_back(column.head);
  if (std::any_of(heads.cells.begin(), heads.cells.end(), [](const std::string& head) { return !head.empty(); }))
    lines_.push_back(heads);
}

void TextTable::row(std::vector<std::string> cells) {
  PANPIPE_CHECK(cells.size() <= columns_.size(), "a column for each cell");
  cells.resize(columns_.size());
  lines_.push_back({true, false, std::move(cells)});
}

void TextTable::line(std::string text) { lines_.push_back({false, false, {std::move(text)}}); }

std::vector<TextTable::Shown> TextTable::shown_columns(const TextStyle& style) const {
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    shown.push_back({i, columns_[i].least_});
    for (const Line& line : lines_)
      if (line.is_row) shown[i].width = std::max(shown[i].width, columns_of(line.cells[i]));
  }
  const auto total = [&] {
    std::size_t sum = indent_ + kGap * (shown.size() - 1);
    for (const Shown& each : shown) sum += each.width;
    const bool words = columns_[shown.back().column].words;
    return words ? sum - shown.back().width + std::min(shown.back().width, kLastWords) : sum;
  };
  const auto rank = [&](const Shown& each) {
    return std::pair(!columns_[each.column].importance_, columns_[each.column].importance_);
  };
  while (!style.fits(total())) {
    const auto least = std::min_element(shown.begin(), shown.end(), [&](auto& a, auto& b) { return rank(a) < rank(b); });
    if (shown.size() == 1 || !columns_[least->column].importance_) break;
    shown.erase(least);
  }
  for (Shown& each : shown)
    if (const std::size_t least = columns_[each.column].shrinks_to_; least > 0 && !style.fits(total())) {
      const std::size_t others = total() - each.width, width = static_cast<std::size_t>(style.width);
      each.width = std::min(each.width, std::max(least, width - std::min(width, others)));
    }
  return shown;
}

std::string TextTable::text(const TextStyle& style) const {
  const std::vector<Shown> shown = shown_columns(style);
  std::string out;
  for (const Line& line : lines_) {
    std::string text(line.is_row ? indent_ : 0, ' ');
    std::size_t last = 0;  // where the last column starts
    for (std::size_t i = 0; line.is_row && i < shown.size(); ++i) {
      const auto& [column, width] = shown[i];
      const std::string cell = columns_[column].shrinks_to_ > 0 ? shortened(line.cells[column], width) : line.cells[column];
      const std::string blanks(width - std::min(width, columns_of(cell)), ' ');
      if (i > 0) text.append(kGap, ' ');
      last = columns_of(text);
      text += columns_[column].words ? cell + blanks : blanks + cell;
    }
    if (!line.is_row) text = line.cells.front();
    text.erase(text.find_last_not_of(' ') + 1);
    const bool words = line.is_row && columns_[shown.back().column].words;
    text = words ? wrapped(text, style.width, static_cast<int>(last)) : text;
    out += (line.is_head ? style.paint(kBold, text) : text) + "\n";
  }
  return out;
}

}  // namespace panpipe
