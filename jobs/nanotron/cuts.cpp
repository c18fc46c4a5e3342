#include "jobs/nanotron/cuts.hpp"

namespace panpipe::jobs {

// nanotron/models/base.py: build_model. A block goes to the current stage; the next one begins behind the first block with which
// the sum of costs is above the stage's share. The costs (get_block_compute_costs of its models) are the weights of a layer with
// as many heads of keys as of queries, and those of the head; embedding, norm and loss cost nothing.
std::vector<int> nanotron_layers(const NanotronSizes& sizes, int stages) {
  const double hidden = sizes.hidden, attention = static_cast<double>(sizes.hidden / sizes.heads) * sizes.heads;
  const double layer = 4 * attention * hidden + 3.0 * sizes.ffn * hidden, head = sizes.vocabulary * hidden;
  const double all = sizes.layers * layer + head;
  std::vector<int> layers(static_cast<std::size_t>(stages), 0);
  int stage = 0;
  double sum = 0;
  const auto place = [&](double cost) {
    sum += cost;
    const int here = stage;
    if (stage + 1 < stages && sum > all * (static_cast<double>(stage + 1) / stages)) ++stage;
    return here;
  };
  place(0);  // the embedding
  for (int i = 0; i < sizes.layers; ++i) ++layers[static_cast<std::size_t>(place(layer))];
  place(0);  // the norm
  if (place(head) != stages - 1) return {};
  for (int s = 0; s + 1 < stages; ++s)
    if (layers[static_cast<std::size_t>(s)] == 0) return {};
  return layers;
}

}  // namespace panpipe::jobs
