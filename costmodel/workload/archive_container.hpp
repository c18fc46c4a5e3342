// The ZIP container of a .pt2 archive, read strictly. Entries must be stored uncompressed (PyTorch never compresses them), lie
// inside the file and not overlap the directory. Allocations never exceed the file's own size, regardless of the archive's
// claims.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>

namespace panpipe {

struct ArchiveEntry {
  std::int64_t offset = 0;  // of its first byte in the file
  std::int64_t bytes = 0;
  std::uint32_t checksum = 0;  // CRC-32
};

class ArchiveContainer {
 public:
  // Throws InputError if the file is unreadable, not a ZIP archive, or damaged, or has compressed or encrypted entries or entries
  // outside the file.
  explicit ArchiveContainer(const std::string& path);

  const std::string& path() const { return path_; }
  // Finds an entry by its name without the archive's top folder; null if absent.
  const ArchiveEntry* find(const std::string& name) const;
  // Reads the whole entry and checks its checksum. Throws InputError if it is absent, larger than `most` bytes or damaged.
  std::string read(const std::string& name, std::int64_t most);

 private:
  struct Directory {
    std::int64_t offset = 0, bytes = 0, entries = 0;
  };
  std::string bytes_at(std::int64_t offset, std::int64_t count, const char* what);
  Directory find_directory();
  void read_directory(const Directory& directory);
  void place_entry(ArchiveEntry& entry, const std::string& name, std::int64_t header, std::int64_t directory);
  [[noreturn]] void damaged(const std::string& why) const;

  std::string path_;
  std::ifstream file_;
  std::int64_t size_ = 0;
  std::map<std::string, ArchiveEntry> entries_;
};

}  // namespace panpipe
