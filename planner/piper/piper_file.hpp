// Reads Piper's input format (JSON, github msr-fiddle/piper at d7fc8cf) into our scenario and table of profiled layers. Numbers
// stay as in the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/input/yaml_document.hpp"
#include "base/quantity.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe::planner::piper {

struct PiperNode {
  std::string name;  // unique: as in the file, with ".ID" if several nodes have it
  long long id = 0;  // in the file
  const Node* at = nullptr;
  std::vector<LayerProfile> profiles;
};

struct PiperFile {
  NodePtr document;              // places refer to it
  std::vector<PiperNode> nodes;  // topological order, following the file where possible
  struct Edge {
    int from = 0, to = 0;  // index of nodes
    double bytes = 0;
    const Node* at = nullptr;
  };
  std::vector<Edge> edges;
  std::optional<int> devices, microbatches;
  std::optional<double> memory, bandwidth;
  std::vector<std::string> warnings;  // complete texts with place and caret
};

// Throws InputError with all faults: unknown ids, cycles, borders that do not match the edges ...
PiperFile read_piper_file(const std::string& path);

// The conditions of the written scenario; absent values are taken from the file.
struct ImportOptions {
  std::optional<int> devices, microbatches;
  std::optional<Bytes> memory;
  std::optional<Bandwidth> bandwidth;
  int most_data = 0;    // 0: no limit
  int most_tensor = 0;  // 0: no limit
  bool recompute = true;
};

struct Imported {
  std::string scenario;  // YAML that names `layers_file`
  std::string layers;
};
Imported import_piper(const PiperFile& file, const ImportOptions& options, const std::string& layers_file);

}  // namespace panpipe::planner::piper
