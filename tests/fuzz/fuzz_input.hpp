// Shared by the entry points: input in pieces, files in memory, which exceptions are answers, and numbers that must be finite.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.hpp"

namespace panpipe::fuzz {

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return std::string(reinterpret_cast<const char*>(data), size);
}

// Takes the text up to the first `separator` off `text`; the whole when there is none.
inline std::string take_piece(std::string& text, char separator) {
  const std::size_t end = text.find(separator);
  std::string piece = text.substr(0, end);
  text = end == std::string::npos ? "" : text.substr(end + 1);
  return piece;
}

// A file that never reaches a disk, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0) std::abort();
    if (write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Whether `read` accepts its input. A refusal names what is wrong; any other exception ends the program, and that is a find.
template <class Read>
bool accepts(Read read) {
  try {
    read();
    return true;
  } catch (const InputError& error) {
    if (error.diagnostics().empty() || error.diagnostics().size() > 20) std::abort();
    for (const Diagnostic& diagnostic : error.diagnostics())
      if (diagnostic.text().empty()) std::abort();
  } catch (const NoAnswer&) {
  } catch (const MachineError&) {
  }
  return false;
}

inline void must_be_finite(double value) {
  if (!std::isfinite(value)) std::abort();
}

}  // namespace panpipe::fuzz
