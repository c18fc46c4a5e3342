// Which files a call has read: no output of the same call may take the place of one of them.
#pragma once

#include <limits>
#include <optional>
#include <string>

namespace panpipe {

// While one lives, files that any thread reads are remembered by what they are (device and inode), not by their names: main()
// has one, so that a library that reads and writes the same file is free to. They do not nest.
class InputsKept {
 public:
  InputsKept();
  ~InputsKept();
  InputsKept(const InputsKept&) = delete;
  InputsKept& operator=(const InputsKept&) = delete;
};

// Remembers a regular file. report_file_read() does it; to be called for inputs that no result names by their hash.
void keep_input(const std::string& path);

// The name under which the file at `path` was read; empty if it was not, or if no object of this class lives.
std::string name_as_input(const std::string& path);

// The bytes of an input file, `most` + 1 at most; none if it cannot be read (errno says why). A file that is not regular, such as
// a FIFO, gives its bytes once: they are kept for a second reader of the same name, such as the hash in a result.
std::optional<std::string> input_bytes(const std::string& path, std::size_t most = std::numeric_limits<std::size_t>::max() - 1);

}  // namespace panpipe
