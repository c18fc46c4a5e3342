#include "base/index_ranges.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace panpipe {
namespace {

struct Range {
  int first = 0, last = 0;
  int length() const { return last - first; }
  std::string text() const { return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last); }
};

// Fewer that repeat are shorter written out.
constexpr std::size_t kLeastRepeated = 4;

std::vector<Range> runs_of(const std::vector<int>& sorted) {
  std::vector<Range> runs;
  for (const int index : sorted) {
    if (!runs.empty() && index == runs.back().last + 1)
      runs.back().last = index;
    else
      runs.push_back({index, index});
  }
  return runs;
}

// How many runs from `begin` on have one length and one distance.
std::size_t repeated(const std::vector<Range>& runs, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < runs.size() && runs[end].length() == runs[begin].length() &&
         runs[end].first - runs[end - 1].first == runs[begin + 1].first - runs[begin].first)
    ++end;
  return end - begin;
}

}  // namespace

std::string ranges_text(std::vector<int> indices, std::size_t most) {
  if (indices.empty()) return "none";
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  const std::vector<Range> runs = runs_of(indices);
  std::string text;
  std::size_t pieces = 0, shown = 0;
  for (std::size_t i = 0; i < runs.size(); ++pieces) {
    if (most > 0 && pieces == most) return text + fmt::format(" and {} more", indices.size() - shown);
    std::size_t count = repeated(runs, i);
    text += (text.empty() ? "" : ", ") + runs[i].text();
    if (count >= kLeastRepeated)
      text += fmt::format(", {} ... {}", runs[i + 1].text(), runs[i + count - 1].text());
    else
      count = 1;
    shown += count * static_cast<std::size_t>(runs[i].length() + 1);
    i += count;
  }
  return text;
}

std::vector<int> unused_indices(const std::vector<int>& used, int count) {
  std::vector<bool> taken(std::max(count, 0));
  for (const int index : used)
    if (index >= 0 && index < count) taken[index] = true;
  std::vector<int> unused;
  for (int index = 0; index < count; ++index)
    if (!taken[index]) unused.push_back(index);
  return unused;
}

std::string unused_devices_text(const std::vector<int>& unused, int devices) {
  if (unused.empty()) return "";
  constexpr std::size_t kMostRanges = 16;
  return fmt::format("{} of {} devices {} not used: {}", unused.size(), devices, unused.size() == 1 ? "is" : "are",
                     ranges_text(unused, kMostRanges));
}

}  // namespace panpipe
