// The data that comes with the program (data_directory()), by folder: "devices", "frameworks".
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// Names of the files in the folder, without ".yaml", sorted.
std::vector<std::string> shipped_names(const std::string& folder);
// "a, b, c" of them for a message; where there are none, which folder holds none and what to do.
std::string shipped_list(const std::string& folder);

}  // namespace panpipe
