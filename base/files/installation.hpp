// Finds the files that belong to the running program, relative to the program. No path of the build machine is compiled in, so a
// prefix may be moved. A build folder has the same layout:
//   PREFIX/bin/panpipe   PREFIX/lib/panpipe/ (modules, executor)   PREFIX/share/panpipe/ (scenarios, clusters, devices, ...)
#pragma once

#include <filesystem>
#include <string>

namespace panpipe {

// The folder of the running program.
std::filesystem::path program_folder();
// For Panpipe inside another program, such as Python: sets the folder to use instead. Call it before any look-up.
void set_program_folder(const std::filesystem::path& folder);
// The installation prefix: the parent of bin/, or of lib/panpipe/ for the executor.
std::filesystem::path installation_prefix();
// The path of a module or a program. Looks next to this program (build folder), then in lib/panpipe/ of the prefix; empty when
// neither has it.
std::filesystem::path find_part(const std::string& name);

}  // namespace panpipe
