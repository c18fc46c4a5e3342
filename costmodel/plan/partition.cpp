// The cuts of a model: names or indices from the scenario, or the balanced partition.
#include "costmodel/plan/partition.hpp"
#include "base/text/did_you_mean.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe {

namespace {

// Least possible largest stage, exactly: f[k][i] is the least largest sum of units [0, i) in k stages. In j the last stage
// shrinks while f[k-1][j] grows, so the best j is where the two cross.
double least_largest(const std::vector<double>& prefix, int stages) {
  const std::size_t n = prefix.size() - 1;
  std::vector<double> best(prefix), next(n + 1, 0);
  for (int k = 2; k <= stages; ++k) {
    auto j = static_cast<std::size_t>(k - 1);
    for (auto i = static_cast<std::size_t>(k); i <= n; ++i) {
      while (j + 1 < i && best[j] < prefix[i] - prefix[j]) ++j;
      next[i] = std::max(best[j], prefix[i] - prefix[j]);
      if (j > static_cast<std::size_t>(k - 1)) next[i] = std::min(next[i], std::max(best[j - 1], prefix[i] - prefix[j - 1]));
    }
    best.swap(next);
  }
  return best[n];
}

}  // namespace

std::vector<int> balanced_partition(const std::vector<Duration>& unit_times, int stages) {
  const int n = static_cast<int>(unit_times.size());
  PANPIPE_CHECK(stages >= 1 && stages <= n, "a partition needs a unit per stage");
  // Whole picoseconds: sums are exact, so equal stages compare as equal.
  std::vector<double> prefix(unit_times.size() + 1, 0);
  for (std::size_t u = 0; u < unit_times.size(); ++u) prefix[u + 1] = prefix[u] + to_ticks(unit_times[u]).base();
  const double limit = least_largest(prefix, stages), mean = prefix.back() / stages;
  // Among the partitions with that largest stage, the least sum of squared distances from the mean. A stage holds at most
  // `limit`, so few starts come into question for each end.
  const auto width = static_cast<std::size_t>(n) + 1;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> cost(width, kNever), next(width);
  std::vector<int> start(static_cast<std::size_t>(stages + 1) * width, -1);
  cost[0] = 0;
  for (int k = 1; k <= stages; ++k) {
    std::fill(next.begin(), next.end(), kNever);
    for (int i = k; i <= n - (stages - k); ++i) {
      for (int j = i - 1; j >= k - 1; --j) {
        const double size = prefix[i] - prefix[j];
        if (size > limit) break;
        const double distance = size - mean, total = cost[j] + distance * distance;
        if (total > next[i] || total == kNever) continue;  // ties: the earlier cut
        next[i] = total;
        start[static_cast<std::size_t>(k) * width + static_cast<std::size_t>(i)] = j;
      }
    }
    cost.swap(next);
  }
  std::vector<int> cuts(stages - 1);
  for (int k = stages, end = n; k > 1; --k) {
    end = start[static_cast<std::size_t>(k) * width + static_cast<std::size_t>(end)];
    cuts[k - 2] = end;
  }
  return cuts;
}

std::vector<int> automatic_cuts(const std::vector<PartitionUnit>& units, int stages) {
  // Units that may be separated: whole blocks if there are enough of them, since training frameworks cut between layers.
  std::vector<int> first_of_group;
  int blocks = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (u > 0 && !units[u].block.empty() && units[u].block == units[u - 1].block) continue;
    first_of_group.push_back(static_cast<int>(u));
    if (!units[u].block.empty()) ++blocks;
  }
  if (blocks < stages) {
    first_of_group.clear();
    for (std::size_t u = 0; u < units.size(); ++u) first_of_group.push_back(static_cast<int>(u));
  }
  std::vector<Duration> times(first_of_group.size(), Duration(0));
  for (std::size_t u = 0, group = 0; u < units.size(); ++u) {
    if (group + 1 < first_of_group.size() && static_cast<int>(u) >= first_of_group[group + 1]) ++group;
    times[group] += units[u].weight;
  }
  std::vector<int> cuts = balanced_partition(times, stages);
  for (int& cut : cuts) cut = first_of_group[cut];
  return cuts;
}

namespace {

int find_unit(const std::vector<PartitionUnit>& units, const std::string& text) {
  for (std::size_t u = 0; u < units.size(); ++u)
    if (units[u].name == text) return static_cast<int>(u);
  const Parsed<long long> index = parse_integer(text);
  const auto count = static_cast<long long>(units.size());
  if (index.value) {
    if (*index.value >= 0 && *index.value < count) return static_cast<int>(*index.value);
    throw InputError(fmt::format("partition: there is no unit {}; the workload has units 0 to {}", text, count - 1));
  }
  // A module's path means the first unit inside it.
  for (std::size_t u = 0; u < units.size(); ++u)
    if (units[u].name.starts_with(text + ".")) return static_cast<int>(u);
  std::vector<std::string> names;
  for (const PartitionUnit& unit : units) names.push_back(unit.name);
  const std::string all = fmt::format("; its units are '{}' to '{}'", names.front(), names.back());
  throw InputError(fmt::format("partition: the workload has no unit '{}'{}", text, suggestion(text, names, all)));
}

}  // namespace

void check_number_of_cuts(std::size_t cuts, int stages) {
  if (static_cast<int>(cuts) != stages - 1)
    throw InputError(fmt::format("partition: {} stages need {} cuts (units that start a stage after the first), not {}", stages,
                                 stages - 1, cuts));
}

std::vector<int> stated_cuts(const std::vector<PartitionUnit>& units, const std::vector<std::string>& starts, int stages) {
  check_number_of_cuts(starts.size(), stages);
  std::vector<int> cuts;
  for (const std::string& text : starts) {
    const int cut = find_unit(units, text);
    if (cut == 0)
      throw InputError(
          fmt::format("partition: '{}' is the first unit, which starts the first stage anyway; name the units that start "
                      "the stages after it",
                      text));
    if (!cuts.empty() && cut <= cuts.back())
      throw InputError(fmt::format("partition: '{}' does not come after '{}'; list cuts in the order of the units", text,
                                   starts[cuts.size() - 1]));
    cuts.push_back(cut);
  }
  return cuts;
}

}  // namespace panpipe
