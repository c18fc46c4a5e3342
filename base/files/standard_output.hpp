// Errors of standard output. When it does not accept all text, the call reports one error, at its end. The files that the call
// writes do not depend on it.
#pragma once

#include <functional>
#include <string>

namespace panpipe {

// The exit code of a program that SIGPIPE ended. Shells report it for every tool whose reader left ("| head").
inline constexpr int kReaderLeft = 128 + 13;

// Call this first in main(). It opens a placeholder for a standard stream that the caller closed, so that no file opened later
// takes its place. It also turns a reader that leaves into a write error instead of a signal.
void guard_standard_streams();

// Writes to standard output.
void print(const std::string& text);

// Call this last in main(); returns the exit code of a call whose work ended with `code`. That is kReaderLeft, without a message,
// when the reader left. It is 3 when standard output did not accept everything; `report` then receives the error sentence.
int with_standard_output(int code, const std::function<void(const std::string&)>& report);

}  // namespace panpipe
