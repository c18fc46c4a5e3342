// SHA-256, as hexadecimal text.
#pragma once

#include <string>

namespace panpipe {

std::string sha256_of(const std::string& text);
// Hashes the file's content. An unreadable file gets the hash of the empty text.
std::string sha256_of_file(const std::string& path);

}  // namespace panpipe
