// Checkpoints of a run: one folder per step, complete or absent, readable on any number of ranks.
//
//   DIR/step-000123/manifest.json                    the file of each tensor, hashes, position
//   DIR/step-000123/model-RANK.safetensors           parameters (fp32 under mixed precision) and buffers, by their own names
//   DIR/step-000123/optimizer-RANK.safetensors       the optimizer's state: "NAME.exp_avg" ...
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/engine/checkpoint/manifest.hpp"
#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

// All ranks call this between two steps. Every rank writes its share under a temporary name; rank 0 adds the manifest and
// renames. Returns the folder. On failure every rank throws MachineError with the failing rank and the reason; the temporary
// folder is removed and older checkpoints stay unchanged. NoAnswer instead if a parameter is not a finite number. `keep`: number
// of newest ones kept (0 = all). `last`: the step of this run's last checkpoint, written or resumed from, or -1; those of later
// steps in `directory` are not of this run and are set aside.
std::string write_checkpoint(const Trainer& trainer, const std::string& directory, int keep, std::int64_t last);

// The checkpoint to resume from: `resume` as given, or for "auto" the newest complete checkpoint in `directory`, judged by its
// manifest and file sizes; "" if there is none. Rank 0 decides for all. It also receives the reasons for skipping newer ones, one
// sentence each.
std::string find_checkpoint(Transport& transport, const std::string& resume, const std::string& directory,
                            Clock::duration deadline, std::vector<std::string>& passed_over);

// Loads the trainer's state, regardless of the ranks that wrote it. Every file's hash is checked, each by one rank. On a mismatch
// every rank throws InputError with the file's name.
void load_checkpoint(Trainer& trainer, const Manifest& manifest, const std::string& folder);

}  // namespace panpipe::exec
