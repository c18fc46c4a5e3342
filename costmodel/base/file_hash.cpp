#include "costmodel/base/file_hash.hpp"

#include <sha256.h>

#include <cstdint>
#include <fstream>
#include <sstream>

namespace panpipe {

std::string sha256_of(const std::string& text) {
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), digest);
  return digest;
}

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return sha256_of(content.str());
}

}  // namespace panpipe
