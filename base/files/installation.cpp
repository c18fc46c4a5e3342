#include "base/files/installation.hpp"

#include <system_error>

namespace panpipe {

namespace fs = std::filesystem;

namespace {

fs::path& stated_folder() {
  static fs::path folder;
  return folder;
}

}  // namespace

void set_program_folder(const fs::path& folder) { stated_folder() = folder; }

fs::path program_folder() {
  if (!stated_folder().empty()) return stated_folder();
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

fs::path installation_prefix() {
  const fs::path folder = program_folder(), above = folder.parent_path();
  return folder.filename() == "panpipe" && above.filename() == "lib" ? above.parent_path() : above;
}

fs::path find_part(const std::string& name) {
  std::error_code ignored;
  for (const fs::path& folder : {program_folder(), installation_prefix() / "lib" / "panpipe"})
    if (fs::exists(folder / name, ignored)) return folder / name;
  return {};
}

}  // namespace panpipe
