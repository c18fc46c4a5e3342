// Sets of layers that are closed under successors: the layers that the last stages of a plan can hold together. A stage is the
// difference of two nested sets.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/piper/planning_problem.hpp"

namespace panpipe::planner::piper {

// Each set is a bit mask over layers, of `words` words.
class Suffixes {
 public:
  // Throws NoAnswer if there are more than `limit`, since parallel branches multiply them.
  explicit Suffixes(const PlanningProblem& problem, std::size_t limit);

  std::size_t size() const { return sizes_.size(); }
  std::size_t words() const { return words_; }
  const std::uint64_t* bits(std::size_t set) const { return &bits_[set * words_]; }
  int layers_in(std::size_t set) const { return sizes_[set]; }  // sets are sorted by this: 0 is empty, the last is the whole
  bool has(std::size_t set, int layer) const { return (bits(set)[layer / 64] >> (layer % 64)) & 1; }
  bool within(std::size_t inner, std::size_t outer) const {
    const std::uint64_t *a = bits(inner), *b = bits(outer);
    for (std::size_t w = 0; w < words_; ++w)
      if (a[w] & ~b[w]) return false;
    return true;
  }
  std::vector<int> difference(std::size_t outer, std::size_t inner) const;  // layers, ascending

  // For every set, the sum of value(layer) over its layers.
  template <class Value>
  std::vector<double> sums(Value value) const {
    std::vector<double> result(size());
    for (std::size_t set = 1; set < size(); ++set) result[set] = result[parent_[set]] + value(added_[set]);
    return result;
  }
  std::size_t parent(std::size_t set) const { return parent_[set]; }  // the set without layer added(set)
  int added(std::size_t set) const { return added_[set]; }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
  std::vector<int> sizes_;
  std::vector<std::uint32_t> parent_;
  std::vector<int> added_;
};

}  // namespace panpipe::planner::piper
