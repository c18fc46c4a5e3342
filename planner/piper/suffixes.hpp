// Sets of layers that are closed under successors: what the last stages of a plan can hold together. A stage is the difference
// of two that are nested.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/piper/planning_problem.hpp"

namespace panpipe::planner::piper {

// Bits of layers, `words` per set.
class Suffixes {
 public:
  // NoAnswer when there are more than `limit`: parallel branches multiply.
  explicit Suffixes(const PlanningProblem& problem, std::size_t limit);

  std::size_t size() const { return sizes_.size(); }
  std::size_t words() const { return words_; }
  const std::uint64_t* bits(std::size_t set) const { return &bits_[set * words_]; }
  int layers_in(std::size_t set) const { return sizes_[set]; }  // sets are sorted by this: 0 is empty, the last is whole
  bool has(std::size_t set, int layer) const { return (bits(set)[layer / 64] >> (layer % 64)) & 1; }
  bool within(std::size_t inner, std::size_t outer) const {
    const std::uint64_t *a = bits(inner), *b = bits(outer);
    for (std::size_t w = 0; w < words_; ++w)
      if (a[w] & ~b[w]) return false;
    return true;
  }
  std::vector<int> difference(std::size_t outer, std::size_t inner) const;  // layers, ascending

  // Sum over the layers of every set.
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
