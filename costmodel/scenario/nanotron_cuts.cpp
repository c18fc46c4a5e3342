#include "costmodel/scenario/nanotron_cuts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace panpipe {
namespace {

struct Placed {
  std::vector<int> layers;  // of each stage
  int head = 0;             // its stage
};

// nanotron/models/base.py: build_model. A block goes to the current stage; the next one begins behind the first block with which
// the sum of costs is above the stage's share. The costs (get_block_compute_costs of its models) are the weights of a layer with
// as many heads of keys as of queries, and those of the head; embedding, norm and loss cost nothing.
Placed placed(const NanotronSizes& sizes, int stages) {
  const double hidden = sizes.hidden, attention = static_cast<double>(sizes.hidden / sizes.heads) * sizes.heads;
  const double layer = 4 * attention * hidden + 3.0 * sizes.ffn * hidden, head = sizes.vocabulary * hidden;
  const double all = sizes.layers * layer + head;
  Placed result{std::vector<int>(static_cast<std::size_t>(stages), 0)};
  int stage = 0;
  double sum = 0;
  const auto place = [&](double cost) {
    sum += cost;
    const int here = stage;
    if (stage + 1 < stages && sum > all * (static_cast<double>(stage + 1) / stages)) ++stage;
    return here;
  };
  place(0);  // the embedding
  for (int i = 0; i < sizes.layers; ++i) ++result.layers[static_cast<std::size_t>(place(layer))];
  place(0);  // the norm
  result.head = place(head);
  return result;
}

// True if one of the first stages has no layer.
bool leaves_one_empty(const Placed& placed, int stages) {
  const auto end = placed.layers.begin() + std::max(0, stages);
  return std::find(placed.layers.begin(), end, 0) != end;
}

}  // namespace

std::vector<int> nanotron_layers(const NanotronSizes& sizes, int stages) {
  Placed result = placed(sizes, stages);
  if (result.head != stages - 1 || leaves_one_empty(result, stages - 1)) return {};
  return result.layers;
}

std::vector<std::string> nanotron_cuts(const NanotronSizes& sizes, int stages) {
  const Placed result = placed(sizes, stages);
  const bool alone = stages > 2 && result.head == stages - 2 && result.layers[static_cast<std::size_t>(stages) - 2] == 0;
  if (!(alone || result.head == stages - 1) || leaves_one_empty(result, alone ? stages - 2 : stages - 1)) return {};
  std::vector<std::string> cuts;
  int layer = 0;
  for (int s = 0; s + 1 < stages; ++s) {
    layer += result.layers[static_cast<std::size_t>(s)];
    cuts.push_back(layer == sizes.layers ? "head" : fmt::format("h.{}.attention", layer));
  }
  if (alone) cuts[static_cast<std::size_t>(stages) - 3] = fmt::format("h.{}.mlp", sizes.layers - 1);
  return cuts;
}

}  // namespace panpipe
