// If standard output does not take everything, the call reports one error, at its end. The files that the call writes do not
// depend on it.
#pragma once

#include <functional>
#include <string>

namespace panpipe {

// As of a program that the signal ended: what a shell says of every tool whose reader left ("| head").
inline constexpr int kReaderLeft = 128 + 13;

// First in main(). A stream that the caller closed gets a place of its own, so that no file opened later stands in for it; a
// reader that leaves is an error of writing, not a signal.
void guard_standard_streams();

// To standard output.
void print(const std::string& text);

// Last in main(): the exit code of a call whose work ended with `code`. kReaderLeft without a word where the reader left; 3 where
// standard output did not take everything, after `tell` got the sentence.
int with_standard_output(int code, const std::function<void(const std::string&)>& tell);

}  // namespace panpipe
