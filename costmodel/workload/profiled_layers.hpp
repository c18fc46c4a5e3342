// Layers that were measured in several ways: for tensor-parallel degrees, with and without recompute. What a multidimensional
// planner chooses from. Part of a file of kind `layers` (docs/file-formats.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/input/reader.hpp"
#include "base/quantity.hpp"

namespace panpipe {

// One way to run a layer on a tensor-parallel group: per device, per microbatch. Bytes are not rounded: planners compare them as
// the file gives them.
struct LayerProfile {
  std::string name;
  int tensor = 1;
  bool recompute = false;
  Duration time{0};                                     // forward and backward
  double parameters = 0;                                // bytes whose gradient replicas reduce
  double in_flight = 0;                                 // bytes for every microbatch in flight
  double fixed = 0;                                     // bytes beside them
  std::vector<std::pair<std::string, double>> receive;  // bytes beyond the edge's own, by the layer that feeds this one
  std::vector<std::pair<std::string, double>> send;     // by the layer that this one feeds
};

// Beside LayerTable::layers, in the same order; empty tables for files without profiles.
struct ProfiledLayers {
  std::vector<std::vector<LayerProfile>> of_layer;
  std::vector<double> edge_bytes;  // of LayerTable::edges, as given
  int most_data = 0;               // largest data-parallel degree that a planner may choose; 0 = no limit
  bool empty() const { return of_layer.empty(); }
};

// `profiles:` of a layer.
std::vector<LayerProfile> read_profiles(const Node& list, ReadLog& log);

// A number of bytes that is not rounded when it is written in B.
double read_exact_bytes(const Node& node, ReadLog& log);

}  // namespace panpipe
