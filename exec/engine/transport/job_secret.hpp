// What the ranks of a run know and strangers do not, and how one shows another that it knows it without saying it.
#pragma once

#include <string>

namespace panpipe::exec {

// PANPIPE_TOKEN, which `panpipe run` sets for the ranks that it starts, else the first line of the file that PANPIPE_TOKEN_FILE
// names; empty where there is neither. InputError: a file that cannot be read or that others than its owner may read, an empty
// word.
std::string job_secret();

std::string random_word();  // 128 bits, in hexadecimal

// HMAC-SHA256 (RFC 2104), in hexadecimal.
std::string keyed_hash(const std::string& secret, const std::string& text);
// In a time that does not tell where they differ.
bool same_word(const std::string& a, const std::string& b);

}  // namespace panpipe::exec
