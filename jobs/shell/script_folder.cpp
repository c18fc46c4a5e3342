#include "jobs/shell/script_folder.hpp"

#include <filesystem>

#include "base/input/source_text.hpp"

namespace panpipe::jobs {

std::optional<FileBeside> file_beside(const std::string& folder, const std::string& from, const std::string& name) {
  namespace fs = std::filesystem;
  constexpr std::uintmax_t kMostBytes = 1 << 20;
  if (folder.empty() || from.empty() || name.empty() || name.find('\0') != std::string::npos) return std::nullopt;
  std::error_code fault;
  // What is named is looked at only if it is below, also without following links.
  const auto below = [&](const fs::path& path) {
    const fs::path rest = path.lexically_relative(folder);
    return !rest.empty() && *rest.begin() != ".." && rest != ".";
  };
  const fs::path named = (fs::path(from) / name).lexically_normal();
  if (!below(named)) return std::nullopt;
  const fs::path found = fs::canonical(named, fault);
  if (fault || !below(found)) return std::nullopt;
  if (!fs::is_regular_file(found, fault) || fs::file_size(found, fault) > kMostBytes || fault) return std::nullopt;
  return FileBeside{found.string(), read_text_file(found.string(), static_cast<long long>(kMostBytes))};
}

}  // namespace panpipe::jobs
