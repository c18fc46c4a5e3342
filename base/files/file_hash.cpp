#include "base/files/file_hash.hpp"

#include <sha256.h>

#include <cstdint>

#include "base/files/input_registry.hpp"

namespace panpipe {

std::string sha256_of(const std::string& text) {
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), digest);
  return digest;
}

std::string sha256_of_file(const std::string& path) { return sha256_of(input_bytes(path).value_or("")); }

}  // namespace panpipe
