// The files that an answer was made from: readers report every input file that they open, and a caller can listen.
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// While one lives, files reported by this thread are gathered in it (in the innermost, when they nest).
class FilesRead {
 public:
  FilesRead();
  ~FilesRead();
  FilesRead(const FilesRead&) = delete;
  FilesRead& operator=(const FilesRead&) = delete;

  const std::vector<std::string>& paths() const { return paths_; }  // each once, in the order of first reading

 private:
  friend void report_file_read(const std::string& path);
  std::vector<std::string> paths_;
  FilesRead* outer_;
};

// Every reader of an input file calls it; does nothing when nobody listens.
void report_file_read(const std::string& path);

}  // namespace panpipe
