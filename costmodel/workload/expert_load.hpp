// How a router spreads tokens over experts, and how experts lie on ranks (docs/models/expert-parallelism.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace panpipe {

// The order in which experts fill ranks: as they are numbered; dealt out by load, the heaviest first, each to the rank that has
// the least so far; or as the scenario lists them.
enum class ExpertPlacement : std::uint8_t { Contiguous, Balanced, Given };

// Loads are relative to an even spread: 1 is the mean of all experts, or of all ranks. By default tokens are spread evenly, and
// none is dropped.
struct ExpertLoad {
  std::optional<double> imbalance;  // rows of the busiest rank of an expert group relative to the mean, instead of a histogram
  std::optional<double> capacity;   // rows that an expert accepts, relative to the mean: more are dropped
  bool padded = true;               // with a capacity: experts with fewer rows are filled up to it
  // Tokens of each expert, in any unit; a line for each layer or step that was counted. Lines count alike. Empty: none is known.
  std::vector<std::vector<double>> tokens;
  std::optional<double> zipf;  // instead: the i-th most wanted expert gets 1 / i^zipf
  ExpertPlacement placement = ExpertPlacement::Contiguous;
  std::vector<int> order;  // of a given placement: the first ranks' experts first

  bool has_histogram() const { return !tokens.empty() || zipf.has_value(); }
  bool stated() const { return imbalance || capacity || has_histogram(); }

  // Rows that a rank sends relative to those that its tokens request.
  double sent(int experts) const;
  // Rows that the busiest of `ranks` receives relative to the mean requested: what a layer waits for, averaged over the lines.
  double received(int ranks, int experts) const;
  // The same of the busiest of `nodes` that divide these ranks evenly, in their order. At most that of ranks.
  double received_by_node(int nodes, int ranks, int experts) const;
  // Throws InputError where tokens or the placement are not of so many experts.
  void check(int experts) const;
};

// The experts of each rank, by their loads of one line; each rank gets as many.
std::vector<std::vector<int>> experts_of_ranks(const ExpertLoad& load, const std::vector<double>& loads, int ranks);

}  // namespace panpipe
