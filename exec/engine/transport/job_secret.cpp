#include "exec/engine/transport/job_secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sha256.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <random>

#include "base/error.hpp"
#include "exec/launch/sockets.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {
namespace {

std::string sha256(const std::string& text) {
  SHA2_CTX state;
  SHA256Init(&state);
  SHA256Update(&state, reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256Final(reinterpret_cast<std::uint8_t*>(digest.data()), &state);
  return digest;
}

std::string first_line_of(const std::string& path) {
  const Handle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  // Checks the open file, because its path may name another one a moment later.
  if (::fstat(file.get(), &status) != 0)
    throw InputError(fmt::format("environment: {}: cannot read {}", kTokenFileVariable, path));
  if (status.st_uid != ::geteuid())
    throw InputError(
        fmt::format("environment: {}: {} belongs to another user, who may change it: give it to the user of the ranks "
                    "(chown), or copy it",
                    kTokenFileVariable, path));
  if ((status.st_mode & 077) != 0)
    throw InputError(
        fmt::format("environment: {}: others than its owner may read {}: chmod 600 {}", kTokenFileVariable, path, path));
  std::string text;
  char buffer[4096];
  for (ssize_t count; text.find('\n') == std::string::npos && (count = ::read(file.get(), buffer, sizeof(buffer))) != 0;) {
    if (count < 0) throw InputError(fmt::format("environment: {}: cannot read {}", kTokenFileVariable, path));
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string job_secret() {
  const char *word = std::getenv(kTokenVariable), *file = std::getenv(kTokenFileVariable);
  if (!word && !file) return "";
  std::string secret = word ? std::string(word) : first_line_of(file);
  if (secret.empty())
    throw InputError(
        fmt::format("environment: {} is empty: a long random word, the same for every rank", word ? kTokenVariable : file));
  return secret;
}

std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::string keyed_hash(const std::string& secret, const std::string& text) {
  constexpr std::size_t kBlock = 64;  // of SHA-256
  std::string key = secret.size() > kBlock ? sha256(secret) : secret;
  key.resize(kBlock, '\0');
  std::string inner = key, outer = key;
  for (char& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (char& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  std::string hexadecimal;
  for (const char byte : sha256(outer + sha256(inner + text)))
    hexadecimal += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hexadecimal;
}

bool equal_secrets(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace panpipe::exec
