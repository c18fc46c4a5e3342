// LibTorch, which the executor loads: found when it starts, because an installed executor does not know where it is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exec/launch/world.hpp"

namespace panpipe::exec {

struct FoundLibTorch {
  std::string folder;      // of the torch package, with lib/libtorch_cpu.so in it; empty = there is none that fits
  std::string version;     // "2.11.0+cu130"
  std::string why;         // the place it was found in: "VIRTUAL_ENV=/home/me/venv"
  std::string built_with;  // the version that the executor was built with; empty = there is no executor here
  std::vector<std::string>
      looked;  // every place looked at before, and why it was left: "CONDA_PREFIX=/opt/conda: no torch in it"
};

// Where LibTorch is looked for besides the environment.
struct LibTorchPlaces {
  std::filesystem::path executor;  // panpipe-exec; empty = there is none
  std::filesystem::path prefix;    // that Panpipe is installed under
};

// The first that fits of
//   1. $PANPIPE_LIBTORCH: a folder of the torch package; when it is set, nothing else is looked at
//   2. the active environment: $VIRTUAL_ENV, $CONDA_PREFIX
//   3. the LibTorch that the executor was built with, when it lies in its build folder
//   4. the Python environment that Panpipe itself is installed in
//   5. PREFIX/share/panpipe/venv, ~/.local/share/panpipe/venv
//   6. python3 of $PATH
// One fits whose major and minor version are those that the executor was built with. torch itself is not started.
FoundLibTorch find_libtorch(const Environment& environment, const LibTorchPlaces& places);
FoundLibTorch find_libtorch();  // of this program

// The sentence for where none was found: the versions, the places looked at, and what to do.
std::string no_libtorch(const FoundLibTorch& search);

// Lets programs that this process starts load LibTorch from the folder found. MachineError with no_libtorch() where none fits;
// nothing where the executor does not say what it was built with.
void use_libtorch();

}  // namespace panpipe::exec
