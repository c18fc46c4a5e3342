#include "base/files/file_hash.hpp"

#include <sha256.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/files/input_registry.hpp"

namespace panpipe {

std::string sha256_of(const std::string& text) {
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), digest);
  return digest;
}

std::string sha256_of_file(const std::string& path) {
  SHA2_CTX state;
  SHA256Init(&state);
  const bool whole = read_input(path, [&](std::string_view block) {
    SHA256Update(&state, reinterpret_cast<const std::uint8_t*>(block.data()), block.size());
  });
  if (!whole) return sha256_of("");
  std::array<char, SHA256_DIGEST_STRING_LENGTH> digest{};
  return SHA256End(&state, digest.data());
}

bool same_contents(const std::string& a, const std::string& b) {
  std::error_code unknown;
  if (std::filesystem::equivalent(a, b, unknown)) return true;
  const auto size = std::filesystem::file_size(a, unknown);
  return !unknown && size == std::filesystem::file_size(b, unknown) && !unknown && sha256_of_file(a) == sha256_of_file(b);
}

}  // namespace panpipe
