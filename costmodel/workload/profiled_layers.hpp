// Layers measured in several ways: for several tensor-parallel degrees, with and without recompute. A multidimensional planner
// chooses among them. Part of a file of kind `layers` (docs/file-formats.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/input/reader.hpp"
#include "base/quantity.hpp"

namespace panpipe {

// One way to run a layer on a tensor-parallel group: per device, per microbatch. Bytes are not rounded, because planners compare
// them as given in the file.
struct LayerProfile {
  std::string name;
  int tensor = 1;
  bool recompute = false;
  Duration time{0};                                     // forward and backward
  double parameters = 0;                                // bytes whose gradient is reduced over replicas
  double in_flight = 0;                                 // bytes per microbatch in flight
  double fixed = 0;                                     // bytes independent of microbatches
  std::vector<std::pair<std::string, double>> receive;  // bytes in addition to the edge's own, by the layer that feeds this one
  std::vector<std::pair<std::string, double>> send;     // the same, by the layer that this one feeds
};

// Indexed like LayerTable::layers; empty for files without profiles.
struct ProfiledLayers {
  std::vector<std::vector<LayerProfile>> of_layer;
  std::vector<double> edge_bytes;  // per edge of LayerTable::edges, as given
  int most_data = 0;               // largest data-parallel degree that a planner may choose; 0 = no limit
  bool empty() const { return of_layer.empty(); }
};

// Reads `profiles:` of a layer.
std::vector<LayerProfile> read_profiles(const Node& list, ReadLog& log);

// Reads a number of bytes; a number in B is not rounded.
double read_exact_bytes(const Node& node, ReadLog& log);

}  // namespace panpipe
