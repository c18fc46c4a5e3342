// Outputs. One rule for every file that a verb, a rank or a study writes:
//   a file           is written whole or not at all: beside, then renamed; folders above it that are missing are made
//   a symbolic link  stays; the file that it points at is written
//   a device, a FIFO or an open file (/dev/stdout, /proc/self/fd/3) is written into
//   a socket or a folder, and a file that this call has read (inputs_kept.hpp), are refused
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace panpipe {

// To be called before a long computation, with what will be written. InputError for what is refused above, and where two of the
// files are one; MachineError where the folder does not let a file be made. `advice` ("choose another file with -o") ends the
// message.
void check_outputs(const std::vector<std::string>& files, const std::string& advice = "");
// The same for files in a folder, which may not exist yet.
void check_outputs(const std::string& folder, const std::vector<std::string>& names, const std::string& advice = "");

// True if writing to it replaces no file: a device, a FIFO or an open file.
bool is_written_into(const std::string& path);

// The folder and those above it. MachineError.
void make_folder(const std::string& folder, const std::string& advice = "");
// The folders above a file.
void make_folder_of(const std::string& file, const std::string& advice = "");

// A file in the making: there after finish(), not before. Errors as of check_outputs, and MachineError with the reason.
class OutputFile {
 public:
  explicit OutputFile(std::string path, std::string advice = "");
  ~OutputFile();  // without finish() nothing was written
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void finish(bool durable = false);  // durable: on the disk before its name is

 private:
  [[noreturn]] void fail();

  std::string path_, advice_;
  std::string target_, part_;  // part_ empty: written into
  int file_ = -1;
};

// The whole text.
void write_file(const std::string& path, const std::string& text, const std::string& advice = "");

}  // namespace panpipe
