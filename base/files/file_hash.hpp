// SHA-256, as hexadecimal text.
#pragma once

#include <string>

namespace panpipe {

std::string sha256_of(const std::string& text);
// The hash of the file's content; the hash of nothing if the file cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace panpipe
