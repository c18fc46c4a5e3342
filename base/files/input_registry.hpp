// Remembers the files that a call has read, so that no output of the same call overwrites one of them.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace panpipe {

// Remembers files that any thread reads while the object lives, by device and inode, not by name. Only main() holds one, so a
// program that uses Panpipe as a library may read and write the same file. Objects do not nest.
class InputRegistry {
 public:
  InputRegistry();
  ~InputRegistry();
  InputRegistry(const InputRegistry&) = delete;
  InputRegistry& operator=(const InputRegistry&) = delete;
};

// Remembers a regular file. report_file_read() calls this; call it directly for inputs that no result lists with their hash.
void register_input(const std::string& path);

// Forgets a file that the call extends: it is an input and the output.
void forget_input(const std::string& path);

// The name under which the file at `path` was read; empty if it was not read, or if no InputRegistry lives.
std::string name_as_input(const std::string& path);

// The first `most` + 1 bytes of an input file at most; nullopt if it cannot be read (errno has the reason). A file that is not
// regular, such as a FIFO, can be read only once. Its bytes are kept for a second reader of the same name, such as the hash in a
// result.
std::optional<std::string> input_bytes(const std::string& path, std::size_t most = std::numeric_limits<std::size_t>::max() - 1);

// Passes all of an input file on, block by block. Returns false where it cannot be read to its end.
bool read_input(const std::string& path, const std::function<void(std::string_view block)>& take);

}  // namespace panpipe
