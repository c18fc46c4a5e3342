#include "base/text/did_you_mean.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text/characters.hpp"

namespace panpipe {
namespace {

int edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment: insert, delete, replace, or swap two neighbours ("memroy").
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string small = lower_case(name);
  std::optional<std::string> best, prefixed;
  int best_distance = std::max(1, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate == name) continue;
    if (lower_case(candidate) == small) return candidate;
    if (candidate.size() > 200 || name.size() > 200) continue;  // the distance is quadratic
    // If several begin so, the one that adds least: "h100" is h100x8 before h100-pcie-x4.
    if (name.size() >= 3 && candidate.starts_with(name) && (!prefixed || candidate.size() < prefixed->size()))
      prefixed = candidate;
    const int distance = edit_distance(name, candidate);
    if (distance < best_distance && distance < static_cast<int>(std::max(name.size(), candidate.size()))) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best ? best : prefixed;
}

std::string did_you_mean(std::string_view near) { return fmt::format("did you mean '{}'?", near); }

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates, const std::string& otherwise) {
  const std::optional<std::string> near = nearest_name(name, candidates);
  return near ? ", " + did_you_mean(*near) : otherwise;
}

std::string suggestion_or_list(std::string_view name, const std::vector<std::string>& candidates) {
  return suggestion(name, candidates, fmt::format("; there are {}", fmt::join(candidates, ", ")));
}

}  // namespace panpipe
