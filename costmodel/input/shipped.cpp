#include "costmodel/input/shipped.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "costmodel/input/reader.hpp"

namespace panpipe {

std::vector<std::string> shipped_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(data_directory() + "/" + folder, ignored))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string shipped_file(const std::string& folder, const std::string& name) {
  return data_directory() + "/" + folder + "/" + name + ".yaml";
}

}  // namespace panpipe
