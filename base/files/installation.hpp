// The files that belong to the running program, found from where it lies: no place of the machine that built it is known. A
// prefix may be moved, and a build folder has the same layout:
//   PREFIX/bin/panpipe   PREFIX/lib/panpipe/ (modules, executor)   PREFIX/share/panpipe/ (scenarios, clusters, devices, ...)
#pragma once

#include <filesystem>
#include <string>

namespace panpipe {

// The folder of the running program.
std::filesystem::path program_folder();
// Of a library in a program of another's: what stands for it from now on. Before anything is looked for.
void set_program_folder(const std::filesystem::path& folder);
// The prefix that it is installed under: of bin/, or of lib/panpipe/ for the executor.
std::filesystem::path installation_prefix();
// A module or a program: beside this one (build folder), else in lib/panpipe/ of the prefix; empty where it is in neither.
std::filesystem::path find_part(const std::string& name);

}  // namespace panpipe
