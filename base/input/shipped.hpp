// The data that comes with the program (data_directory()), by folder: "devices", "frameworks".
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// Names of the files in the folder, without ".yaml", sorted; none where there is no such folder.
std::vector<std::string> shipped_names(const std::string& folder);
// Where the file of such a name lies.
std::string shipped_file(const std::string& folder, const std::string& name);
// "a, b, c" of them for a message; where there are none, which folder holds none and what to do.
std::string shipped_list(const std::string& folder);

}  // namespace panpipe
