// Files that a script may name: those in its folder and below.
#pragma once

#include <optional>
#include <string>

namespace panpipe::jobs {

struct FileBeside {
  std::string path, text;
};

// A regular file of at most 1 MiB in or below `folder` (canonical), links followed; `name` counts from `from`. None: it is no
// such file, or the folder is empty.
std::optional<FileBeside> file_beside(const std::string& folder, const std::string& from, const std::string& name);

}  // namespace panpipe::jobs
