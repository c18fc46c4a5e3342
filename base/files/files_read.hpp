// Records the files that a result was made from. Every reader reports each input file it opens; a caller can collect them.
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// Collects the files that this thread reports during its lifetime. When objects nest, the innermost collects.
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

// Every reader of an input file calls this. Does nothing when no FilesRead collects.
void report_file_read(const std::string& path);

}  // namespace panpipe
