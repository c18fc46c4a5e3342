// The tower of a model of text and images: patches of a sample's images pass a transformer of their own and a projector, and
// stand in front of the words. A class is a function that fills this in (model_config_vision.cpp); one builder builds them all
// (transformer_vision.cpp). Internal to this folder.
#pragma once

#include <string>
#include <vector>

#include "costmodel/workload/models.hpp"

namespace panpipe {

// From features of the tower to those of the language model.
struct Projector {
  struct Product {
    std::string name;
    int features = 0;
    bool bias = false;
  };
  std::string norm = {};  // a module, empty: none
  NormKind kind = NormKind::Layer;
  bool norm_of_joined = false;  // behind the joining instead of in front of it
  double epsilon = 1e-6;
  int joined = 1;                      // neighbouring patches that become one token, side by side
  bool averaged = false;               // or by their mean
  Product first = {};                  // a product in front of the others, without an activation; no name: none
  std::vector<Product> products = {};  // GELU between them
  bool last_active = false;            // and behind the last
  std::string gated = {};              // GLM: norm and GELU behind the products, then an MLP with a gate of this width
  int gate_width = 0;
};

struct VisionTower {
  ModelDimensions layers = {};  // of its transformer: layers, hidden, heads, ffn, traits
  int images = 1;               // of a sample
  int height = 0, width = 0;    // of an image, in patches
  int pixels = 0;               // numbers of a patch: colours x frames x side x side
  Projector::Product patch = {};
  std::string class_token = {}, positions = {};  // parameters, empty: none
  int position_rows = 0;
  bool one_size = false;                          // images have as many patches as positions
  std::string norm_before = {}, norm_after = {};  // around the layers
  std::vector<int> window_of_layer = {};          // patches of a window, 0: the whole image; empty: all layers see it whole
  Projector projector = {};
  std::vector<int> deep = {};  // layers whose results also enter the first layers of the language model
  Projector deep_projector = {};

  int patches() const { return height * width; }  // of an image
  int patch_tokens() const { return images * (patches() + (class_token.empty() ? 0 : 1)); }
  int words() const { return images * patches() / projector.joined; }  // tokens of the language model
};

struct Pictures {
  int words = -1;              // (batch, tokens, hidden of the language model), whole on every rank
  std::vector<int> deep = {};  // likewise, for its first layers
};

// The tower's units: "vision.embedding", "vision.h.N.attention" and ".mlp", "vision.deep.N", "projector".
Pictures vision_tower(GraphBuilder& g, const VisionTower& tower, int hidden);
// Throws InputError where the degrees or the sequence do not fit it.
void check_tower(const VisionTower& tower, const ModelDimensions& text, const WorkloadShape& shape, const std::string& model);

}  // namespace panpipe
