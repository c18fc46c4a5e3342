// Finds the LibTorch that the executor loads. It is searched at start, because an installed executor does not know its place.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exec/launch/world.hpp"

namespace panpipe::exec {

struct FoundLibTorch {
  std::string folder;               // of the torch package, with lib/libtorch_cpu.so; empty = none fits
  std::string version;              // "2.11.0+cu130"
  std::string why;                  // where it was found: "VIRTUAL_ENV=/home/me/venv"
  std::string built_with;           // version that the executor was built with; empty = no executor here
  std::vector<std::string> looked;  // every place rejected before, with the reason: "CONDA_PREFIX=/opt/conda: no torch in it"
};

// Places to search in addition to the environment.
struct LibTorchPlaces {
  std::filesystem::path executor;  // panpipe-exec; empty = none
  std::filesystem::path prefix;    // installation prefix of Panpipe
};

// Returns the first that fits of
//   1. $PANPIPE_LIBTORCH: a folder of the torch package; if it is set, no other place is searched
//   2. the active environment: $VIRTUAL_ENV, $CONDA_PREFIX
//   3. the LibTorch that the executor was built with, if the executor is in its build folder
//   4. the Python environment in which Panpipe is installed
//   5. PREFIX/share/panpipe/venv, ~/.local/share/panpipe/venv
//   6. python3 of $PATH
// A LibTorch fits if its major and minor version equal those that the executor was built with. torch itself is not started.
FoundLibTorch find_libtorch(const Environment& environment, const LibTorchPlaces& places);
FoundLibTorch find_libtorch();  // for this program

// The message if none was found: the versions, the searched places, and the remedy.
std::string no_libtorch(const FoundLibTorch& search);

// Lets programs started by this process load the found LibTorch. Throws MachineError with no_libtorch() if none fits; does
// nothing if the executor does not state its version.
void use_libtorch();

}  // namespace panpipe::exec
