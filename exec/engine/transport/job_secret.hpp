// The secret shared by the ranks of a run, and the proof of knowing it without sending it.
#pragma once

#include <string>

namespace panpipe::exec {

// PANPIPE_TOKEN, which `panpipe run` sets for its ranks, else the first line of the file named by PANPIPE_TOKEN_FILE; empty if
// neither is set. Throws InputError for a file that is unreadable, another user's, or readable by others than its owner, and for
// an empty secret.
std::string job_secret();

std::string random_token();  // 128 bits, in hexadecimal

// HMAC-SHA256 (RFC 2104), in hexadecimal.
std::string keyed_hash(const std::string& secret, const std::string& text);
// Compares in a time that does not reveal where they differ.
bool equal_secrets(const std::string& a, const std::string& b);

}  // namespace panpipe::exec
