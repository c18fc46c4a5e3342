// Versions of a rank's weights, for steps without a flush (schedule/rolling.hpp): the latest, which the optimizer updates, and
// the one before it, with which a step runs whose forwards began before the last update (Narayanan et al., arXiv 2006.09503).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <map>
#include <unordered_map>

namespace panpipe::exec {

class WeightVersions {
 public:
  // Trained leaves and what the optimizer updates, by root (SeededParameters); the leaves keep alive. `version`: of the values
  // that they have now, counted in updates; the version before it has the same until older() is filled.
  WeightVersions(const std::map<int, at::Tensor>& trained, const std::map<int, at::Tensor>& masters, std::int64_t version);

  // The tensor that a pass reads in place of a weight: the values of that version, the latest or the one before it, whose
  // gradient flows to the weight. Returns what is no trained weight as it is.
  at::Tensor stand_in(const at::Tensor& weight, std::int64_t version) const;
  // Before an update: the weights and what the optimizer updates get the oldest version's memory, with the latest values. Passes
  // under way keep theirs.
  void advance();
  // By root: the version before the latest.
  std::map<int, at::Tensor> older() const;

 private:
  struct Entry {
    int root = 0;
    at::Tensor leaf, master;           // master: undefined if it has memory of its own
    std::array<at::Tensor, 2> values;  // of even and odd versions
  };
  std::unordered_map<const c10::TensorImpl*, Entry> entries_;
  std::int64_t latest_;
};

}  // namespace panpipe::exec
