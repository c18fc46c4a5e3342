#include "base/input/shipped.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/input/reader.hpp"

namespace panpipe {

namespace fs = std::filesystem;

std::vector<std::string> shipped_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(data_directory()) / folder, ignored))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string shipped_file(const std::string& folder, const std::string& name) {
  return (fs::path(data_directory()) / folder / (name + ".yaml")).string();
}

std::string shipped_list(const std::string& folder) {
  const std::vector<std::string> names = shipped_names(folder);
  if (!names.empty()) return fmt::format("{}", fmt::join(names, ", "));
  const char* wanted = std::getenv("PANPIPE_DATA");
  return fmt::format("none: '{}' holds no files{}", (fs::path(data_directory()) / folder).string(),
                     wanted != nullptr && *wanted != '\0' ? "; PANPIPE_DATA names that folder: correct it, or unset it" : "");
}

}  // namespace panpipe
