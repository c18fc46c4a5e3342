// Which tensors go from stage to stage when units are cut into stages: for the lowering, searches and the executor alike.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

// A tensor on its way from one stage to another: once for each stage that reads it, however many units of that stage do.
struct Crossing {
  int from = 0, to = 0, tensor = -1;
  Bytes bytes{0};
  bool gradient = false;  // a gradient of the same size comes back
};

// Ascending by (from, to, tensor). `stage_of_unit`: -1 for units that no stage holds. An edge without tensor is a tensor of its
// own.
std::vector<Crossing> crossings(const std::vector<UnitEdge>& edges, const std::vector<int>& stage_of_unit);

// All tensors from one stage to another together, in bytes.
struct StageLink {
  int from = 0, to = 0;
  std::int64_t bytes = 0, gradient_bytes = 0;  // forward, and back
  bool gradient = false;
};

// Ascending by (from, to).
std::vector<StageLink> stage_links(const std::vector<UnitEdge>& edges, const std::vector<int>& stage_of_unit);

}  // namespace panpipe
