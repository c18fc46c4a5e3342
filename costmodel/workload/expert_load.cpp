#include "costmodel/workload/expert_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe {
namespace {

// Which experts are wanted most has nothing to do with their numbers: one fixed shuffle. (std::shuffle differs by library.)
std::vector<double> zipf_line(double exponent, int experts) {
  std::vector<double> line(at(experts));
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = std::pow(static_cast<double>(i + 1), -exponent);
  std::mt19937_64 random(1);
  for (std::size_t i = line.size(); i > 1; --i) std::swap(line[i - 1], line[random() % i]);
  return line;
}

std::vector<std::vector<double>> lines_of(const ExpertLoad& load, int experts) {
  std::vector<std::vector<double>> lines = load.tokens;
  if (load.zipf) lines = {zipf_line(*load.zipf, experts)};
  for (std::vector<double>& line : lines) {
    const double mean = std::accumulate(line.begin(), line.end(), 0.0) / static_cast<double>(line.size());
    for (double& one : line) one /= mean;
  }
  return lines;
}

// Rows of an expert that are kept.
double kept(const ExpertLoad& load, double asked) {
  if (!load.capacity) return asked;
  return load.padded ? *load.capacity : std::min(asked, *load.capacity);
}

double mean_over(const std::vector<std::vector<double>>& lines, const auto& of) {
  double sum = 0;
  for (const std::vector<double>& line : lines) sum += of(line);
  return sum / static_cast<double>(lines.size());
}

}  // namespace

std::vector<std::vector<int>> experts_of_ranks(const ExpertLoad& load, const std::vector<double>& loads, int ranks) {
  const int experts = static_cast<int>(loads.size());
  std::vector<int> order(at(experts));
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int>> of_rank(at(ranks));
  const std::size_t each = at(experts / ranks);
  if (load.placement != ExpertPlacement::Balanced) {
    if (load.placement == ExpertPlacement::Given) order = load.order;
    for (std::size_t i = 0; i < order.size(); ++i) of_rank[i / each].push_back(order[i]);
    return of_rank;
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return loads[at(a)] > loads[at(b)]; });
  std::vector<double> sum(at(ranks));
  for (const int expert : order) {
    std::size_t least = sum.size();
    for (std::size_t r = 0; r < sum.size(); ++r)
      if (of_rank[r].size() < each && (least == sum.size() || sum[r] < sum[least])) least = r;
    of_rank[least].push_back(expert);
    sum[least] += loads[at(expert)];
  }
  return of_rank;
}

double ExpertLoad::sent(int experts) const {
  if (!capacity) return 1;
  if (padded) return *capacity;
  if (!has_histogram()) return std::min(1.0, *capacity);
  return mean_over(lines_of(*this, experts), [&](const std::vector<double>& line) {
    double sum = 0;
    for (const double asked : line) sum += kept(*this, asked);
    return sum / experts;
  });
}

double ExpertLoad::received(int ranks, int experts) const { return received_by_node(ranks, ranks, experts); }

double ExpertLoad::received_by_node(int nodes, int ranks, int experts) const {
  if (capacity && padded) return *capacity;
  if (!has_histogram()) return kept(*this, std::min(imbalance.value_or(1), static_cast<double>(nodes)));
  return mean_over(lines_of(*this, experts), [&](const std::vector<double>& line) {
    const std::vector<std::vector<int>> of_rank = experts_of_ranks(*this, line, ranks);
    std::vector<double> sum(at(nodes));
    for (int r = 0; r < ranks; ++r)
      for (const int expert : of_rank[at(r)]) sum[at(r * nodes / ranks)] += kept(*this, line[at(expert)]);
    return *std::max_element(sum.begin(), sum.end()) * nodes / experts;
  });
}

void ExpertLoad::check(int experts) const {
  for (const std::vector<double>& line : tokens)
    if (std::ssize(line) != experts)
      throw InputError(fmt::format("'experts.tokens' counts those of {} experts, and the model has {}", line.size(), experts));
  if (placement == ExpertPlacement::Given && std::ssize(order) != experts)
    throw InputError(fmt::format("'experts.placement' lists {} experts, and the model has {}", order.size(), experts));
}

}  // namespace panpipe
