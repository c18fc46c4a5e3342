// Piper's input format (JSON, github msr-fiddle/piper at d7fc8cf) -> our scenario and table of profiled layers. The numbers stay
// as the file has them; what is known to mislead in such files is told as warnings, with the place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/input/yaml_document.hpp"
#include "base/quantity.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe::planner::piper {

struct PiperNode {
  std::string name;  // unique: as in the file, with ".ID" where several nodes have it
  long long id = 0;  // of the file
  const Node* at = nullptr;
  std::vector<LayerProfile> profiles;
};

struct PiperFile {
  NodePtr document;              // what places refer to
  std::vector<PiperNode> nodes;  // topological order, the file's where that allows
  struct Edge {
    int from = 0, to = 0;  // index of nodes
    double bytes = 0;
    const Node* at = nullptr;
  };
  std::vector<Edge> edges;
  std::optional<int> devices, microbatches;
  std::optional<double> memory, bandwidth;
  std::vector<std::string> warnings;  // whole texts, with place and caret
};

// Throws InputError with everything that is wrong: unknown ids, cycles, borders that do not match the edges ...
PiperFile read_piper_file(const std::string& path);

// What looks plausible in such files and is not: appended to file.warnings.
void warn_of_traps(PiperFile& file);

// The text of a warning at a place of the document.
std::string warning_at(const Node& node, const std::string& message, const std::string& help = "");

// What a scenario is made for; what is absent is the file's.
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
