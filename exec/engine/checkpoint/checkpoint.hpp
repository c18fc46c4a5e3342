// Checkpoints of a run: one folder per step, whole or absent, readable on any number of ranks.
//
//   DIR/step-000123/manifest.json                    what stands where, hashes, position
//   DIR/step-000123/model-RANK.safetensors           parameters (fp32 under mixed precision) and buffers, by their own names
//   DIR/step-000123/optimizer-RANK.safetensors       the optimizer's state: "NAME.exp_avg" ...
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/engine/checkpoint/manifest.hpp"
#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

// Called by every rank between two steps. Every rank writes its share under a temporary name; rank 0 adds the manifest and
// renames. Returns the folder. MachineError on every rank, naming the rank that could not write and why; the temporary folder is
// then removed and older checkpoints are as they were. `keep`: newest ones that stay (0 = all).
std::string write_checkpoint(const Trainer& trainer, const std::string& directory, int keep);

// Where to resume from: `resume` as given, or for "auto" the newest whole checkpoint in `directory`, by its manifest and the
// sizes of its files; "" when there is none. Decided by rank 0 for all, which also learns why it passed over newer ones: a
// sentence each.
std::string find_checkpoint(Transport& transport, const std::string& resume, const std::string& directory,
                            Clock::duration deadline, std::vector<std::string>& passed_over);

// Loads into the trainer what it keeps, whichever rank wrote it. Every file's hash is checked, by one rank each; InputError on
// every rank, naming the file, when one does not fit.
void load_checkpoint(Trainer& trainer, const Manifest& manifest, const std::string& folder);

}  // namespace panpipe::exec
