// The small file that makes a folder of tensors a checkpoint: what stands in which file, with hashes, and where training stood.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exec/engine/checkpoint/safetensors.hpp"
#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

constexpr int kCheckpointVersion = 1;

struct Manifest {
  std::string model;        // name of the graph
  std::string fingerprint;  // SHA-256 over names and shapes of its parameters and buffers
  std::string optimizer;    // name
  std::string precision;
  int seed = 0;
  int ranks = 1, data = 1;  // that wrote it
  TrainingPosition position;
  std::vector<WrittenFile> files;
  std::map<std::string, std::string> tensors;  // parameter, buffer or piece of optimizer state -> file
};

// SHA-256 over "name shape" of every parameter and buffer, sorted.
std::string fingerprint_of(const OperatorGraph& graph);

std::string to_json(const Manifest& manifest);

// Reads FOLDER/manifest.json. InputError: none there, not a manifest, a format this version does not know, a file missing or of
// another length than the manifest says.
Manifest read_manifest(const std::string& folder);

// InputError when the checkpoint is of another model (listing what differs) or optimizer.
void check_manifest(const Manifest& manifest, const std::string& folder, const PreparedRun& run);

}  // namespace panpipe::exec
