// What files hold, by SHA-256.
#pragma once

#include <string>

namespace panpipe {

// As hexadecimal text.
std::string sha256_of(const std::string& text);
// Hashes the file's content, in constant memory. An unreadable file gets the hash of the empty text.
std::string sha256_of_file(const std::string& path);

// Whether both names are of one file, or of regular files with the same content.
bool same_contents(const std::string& a, const std::string& b);

}  // namespace panpipe
