// The files that Panpipe brings along, by folder.
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// Names of the YAML files in a folder of data_directory(), sorted, without folder and suffix; none where there is no such folder.
std::vector<std::string> shipped_names(const std::string& folder);

// Where the file of such a name lies.
std::string shipped_file(const std::string& folder, const std::string& name);

}  // namespace panpipe
