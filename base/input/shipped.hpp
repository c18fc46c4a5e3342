// The data files installed with the program (data_directory()), by folder: "devices", "frameworks".
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// Names of the files in the folder, without ".yaml", sorted; empty when the folder does not exist.
std::vector<std::string> shipped_names(const std::string& folder);
// The path of the file with this name.
std::string shipped_file(const std::string& folder, const std::string& name);
// Their names for a message: "a, b, c". If there are none, names the empty folder and the remedy.
std::string shipped_list(const std::string& folder);

}  // namespace panpipe
