// Output files. One rule for every file that a verb, a rank or a study writes:
//   a file           is written completely or not at all: to a neighbouring name, then renamed; missing folders above it are made
//   a symbolic link  stays; the file that it points to is written
//   a device, a FIFO or an open file (/dev/stdout, /proc/self/fd/3) is written to directly
//   a socket or a folder, and a file that this call has read (input_registry.hpp), are refused
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace panpipe {

// Call this before a long computation, with the files it will write. Throws InputError for the refusals above and when two of the
// files are the same; MachineError when the folder does not allow a new file. `advice` ("choose another file with -o") ends the
// message.
void check_outputs(const std::vector<std::string>& files, const std::string& advice = "");
// Checks files in a folder, which need not exist yet.
void check_outputs(const std::string& folder, const std::vector<std::string>& names, const std::string& advice = "");

// True if writing to `path` replaces no file: a device, a FIFO or an open file.
bool is_written_into(const std::string& path);

// Makes the folder and its missing parents. Throws MachineError.
void make_folder(const std::string& folder, const std::string& advice = "");
// Makes the missing folders above a file. Throws MachineError.
void make_folder_of(const std::string& file, const std::string& advice = "");

// A file being written. It appears under its name with finish(), not before. Throws like check_outputs, and MachineError with the
// reason.
class OutputFile {
 public:
  explicit OutputFile(std::string path, std::string advice = "");
  ~OutputFile();  // without finish() nothing was written
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void finish(bool durable = false);  // durable: the data reaches the disk before the name does

 private:
  [[noreturn]] void fail();

  std::string path_, advice_;
  std::string target_, part_;  // part_ is empty when the file is written to directly
  int file_ = -1;
};

// Writes the whole text to a file. Throws like OutputFile.
void write_file(const std::string& path, const std::string& text, const std::string& advice = "");

}  // namespace panpipe
