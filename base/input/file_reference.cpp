// Finds files that other files refer to.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/files/installation.hpp"
#include "base/input/reader.hpp"
#include "base/text/did_you_mean.hpp"

namespace panpipe {

namespace {

namespace fs = std::filesystem;

std::string joined(const std::string& directory, const std::string& reference) {
  return directory.empty() ? reference : (fs::path(directory) / reference).lexically_normal().string();
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Another file of the same folder with a similar name.
std::optional<std::string> similar_file(const std::string& reference, const std::string& directory) {
  const fs::path path(reference);
  std::vector<std::string> names;
  std::error_code ignored;
  fs::directory_iterator entry(joined(directory.empty() ? "." : directory, path.parent_path().string()), ignored);
  for (int seen = 0; !ignored && entry != fs::directory_iterator() && seen < 1000; entry.increment(ignored), ++seen)
    names.push_back(entry->path().filename().string());
  const auto nearest = nearest_name(path.filename().string(), names);
  if (!nearest) return std::nullopt;
  return (path.parent_path() / *nearest).string();
}

}  // namespace

std::optional<std::string> find_file(const std::string& reference, const std::string& directory) {
  if (reference.empty()) return std::nullopt;
  if (fs::path(reference).is_absolute()) return exists(reference) ? std::optional(reference) : std::nullopt;
  for (const std::string& folder : {directory, data_directory()}) {
    const std::string path = joined(folder, reference);
    if (exists(path)) return path;
  }
  return std::nullopt;
}

std::optional<std::string> read_file_reference(const Node& node, ReadLog& log, const std::string& what) {
  const std::optional<std::string> reference = read_string(node, log);
  if (!reference) return std::nullopt;
  const std::string& directory = node.source->directory;
  if (auto path = find_file(*reference, directory)) return path;
  const bool absolute = fs::path(*reference).is_absolute();
  for (const std::string& folder : {directory, data_directory()})
    if (const auto similar = similar_file(*reference, absolute ? "/" : folder)) {
      log.error(node, fmt::format("there is no {} '{}', {}", what, *reference, did_you_mean(*similar)), "", code::kNoFile);
      return std::nullopt;
    }
  const std::string here = directory.empty() ? "." : directory;
  log.error(node, fmt::format("there is no {} '{}'", what, *reference),
            absolute ? "" : fmt::format("looked in '{}' and in '{}'", here, data_directory()), code::kNoFile);
  return std::nullopt;
}

std::string data_directory() {
  if (const char* folder = std::getenv("PANPIPE_DATA"); folder != nullptr && *folder != '\0') return folder;
  // In a build folder this is a link to the source tree's scenarios/: messages name what it points to.
  const fs::path shared = installation_prefix() / "share" / "panpipe";
  std::error_code failed;
  const fs::path real = fs::canonical(shared, failed);
  return failed ? shared.string() : real.string();
}

}  // namespace panpipe
