#include "cli/standard_input.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/input/source_text.hpp"

namespace panpipe::cli {
namespace {

char standard_input[] = "/dev/stdin", standard_output[] = "/dev/stdout";

[[noreturn]] void cannot(const char* what) {
  throw MachineError(fmt::format("standard input cannot be {}: {}", what, std::strerror(errno)));
}

void write_all(int file, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(file, bytes, size);
    if (written < 0 && errno != EINTR) cannot("kept");
    if (written <= 0) continue;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
}

// A file in memory takes the place of the pipe.
void keep_standard_input() {
  struct stat status {};
  if (fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode)) return;
  const int file = memfd_create("standard input", MFD_CLOEXEC);
  if (file < 0) cannot("kept");
  std::vector<char> buffer(1 << 16);
  for (long long total = 0;;) {
    const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot("read");
    if ((total += got) > kLargestFile) throw InputError(fmt::format("standard input holds more than {} MiB", kLargestFile >> 20));
    write_all(file, buffer.data(), static_cast<std::size_t>(got));
  }
  lseek(file, 0, SEEK_SET);
  if (dup2(file, STDIN_FILENO) < 0) cannot("kept");
  close(file);
}

}  // namespace

void name_standard_streams(int argc, char** argv) {
  // A log is read once, and may be larger than memory.
  const bool streams = argc > 2 && std::string_view(argv[1]) == "import" && std::string_view(argv[2]) == "log";
  bool reads = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "-") continue;
    const bool output = std::string_view(argv[i - 1]) == "-o";
    argv[i] = output ? standard_output : standard_input;
    reads = reads || !output;
  }
  if (reads && !streams) keep_standard_input();
}

}  // namespace panpipe::cli
