// The tensors that stages exchange when units are cut into stages. The lowering, searches and the executor share it.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/workload/unit_edges.hpp"

namespace panpipe {

// A tensor sent from one stage to another: once per reading stage, regardless of how many units of that stage read it.
struct Crossing {
  int from = 0, to = 0, tensor = -1;
  Bytes bytes{0};
  bool gradient = false;  // a gradient of the same size is sent back
};

// Sorted by (from, to, tensor). `stage_of_unit` is -1 for units in no stage. An edge without a tensor id counts as a tensor of
// its own.
std::vector<Crossing> crossings(const std::vector<UnitEdge>& edges, const std::vector<int>& stage_of_unit);

// All tensors from one stage to another, in bytes.
struct StageLink {
  int from = 0, to = 0;
  std::int64_t bytes = 0, gradient_bytes = 0;  // sent forward, and back
  bool gradient = false;
};

// Sorted by (from, to).
std::vector<StageLink> stage_links(const std::vector<UnitEdge>& edges, const std::vector<int>& stage_of_unit);

}  // namespace panpipe
