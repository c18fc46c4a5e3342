// A memory-mapped file, loaded as it is read.
#pragma once

#include <cstdint>
#include <string>

namespace panpipe::exec {

class MappedFile {
 public:
  // Throws InputError if it is unreadable or not a regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const char* data() const { return data_; }  // nullptr if the file is empty
  std::int64_t bytes() const { return bytes_; }

 private:
  const char* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace panpipe::exec
