// The names in a folder of checkpoints. No LibTorch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace panpipe::exec {

// "step-000123"; while it is being written ".step-000123.part".
std::string checkpoint_name(std::int64_t step);
std::string unfinished_name(std::int64_t step);

// 123 for ".../step-000123"; -1 for other names.
std::int64_t step_of(const std::filesystem::path& folder);
// Folders of checkpoints, newest first.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& directory);
// Renames the checkpoints of steps later than `step` to "step-000123.abandoned": a run that went back to that step replaces them.
// Throws MachineError with the reason.
void set_aside_later(const std::filesystem::path& directory, std::int64_t step);
// Removes the leftovers of runs that were killed while writing.
void remove_unfinished(const std::filesystem::path& directory);

}  // namespace panpipe::exec
