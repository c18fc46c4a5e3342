// The file that turns a folder of tensors into a checkpoint: the file of each tensor, hashes, and the position of the training.
#pragma once

#include <map>
#include <optional>
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
  bool shuffle = false;     // of the data
  int ranks = 1, data = 1;  // numbers of ranks and replicas that wrote it
  TrainingPosition position;
  std::vector<WrittenFile> files;
  std::map<std::string, std::string> tensors;  // parameter, buffer or piece of optimizer state -> file
};

// SHA-256 over "name shape" of every parameter and buffer, sorted.
std::string fingerprint_of(const OperatorGraph& graph);

std::string to_json(const Manifest& manifest);

// Reads FOLDER/manifest.json. Throws InputError if it is missing, not a manifest, of an unknown format version, or if a listed
// file is missing or has another length.
Manifest read_manifest(const std::string& folder);

// Throws InputError if the checkpoint belongs to another model (listing the differences) or optimizer.
void check_manifest(const Manifest& manifest, const std::string& folder, const PreparedRun& run);

// Whether the order of the samples is drawn anew in every epoch.
bool shuffles(const Scenario& scenario);

// Allowed changes of the run that the user should know of: one sentence each.
std::vector<std::string> changes_since(const Manifest& manifest, const PreparedRun& run);

}  // namespace panpipe::exec
