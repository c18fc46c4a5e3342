// nanotron divides the layers over its pipeline by a rule of its own; no key of its configuration states cuts.
#pragma once

#include <vector>

namespace panpipe::jobs {

struct NanotronSizes {
  int layers = 0, hidden = 0, heads = 0, ffn = 0, vocabulary = 0;
};

// Layers of each stage; the last one has norm and head too. Empty if nanotron leaves a stage without a layer or the head, or
// puts the head in front of the last stage.
std::vector<int> nanotron_layers(const NanotronSizes& sizes, int stages);

}  // namespace panpipe::jobs
