// nanotron divides the layers over its pipeline by a rule of its own; no key of its configuration states cuts.
#pragma once

#include <string>
#include <vector>

namespace panpipe {

struct NanotronSizes {
  int layers = 0, hidden = 0, heads = 0, ffn = 0, vocabulary = 0;
};

// Layers of each stage; the last one has norm and head too. Empty if nanotron leaves a stage without a layer or the head, or
// puts the head in front of the last stage.
std::vector<int> nanotron_layers(const NanotronSizes& sizes, int stages);

// The units that begin the second and later stages. Where nanotron puts the head by itself in front of the last stage, which is
// left the loss, the last half layer stands for the head's stage, and the head with its loss for the last one. Empty if a stage
// is left without a layer otherwise.
std::vector<std::string> nanotron_cuts(const NanotronSizes& sizes, int stages);

}  // namespace panpipe
