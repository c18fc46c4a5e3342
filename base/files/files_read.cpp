#include "base/files/files_read.hpp"

#include <algorithm>

#include "base/files/input_registry.hpp"

namespace panpipe {
namespace {
thread_local FilesRead* innermost = nullptr;
}  // namespace

FilesRead::FilesRead() : outer_(innermost) { innermost = this; }

FilesRead::~FilesRead() { innermost = outer_; }

void report_file_read(const std::string& path) {
  register_input(path);
  if (innermost == nullptr) return;
  std::vector<std::string>& paths = innermost->paths_;
  if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
}

}  // namespace panpipe
