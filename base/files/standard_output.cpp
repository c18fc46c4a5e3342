#include "base/files/standard_output.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"

namespace panpipe {
namespace {

int fault = 0;  // of the first write that failed

void note_fault() {
  if (fault == 0) fault = errno != 0 ? errno : EIO;
}

}  // namespace

void guard_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open() takes the lowest free number, which is this stream's. If it cannot be opened for writing, writes fail, as on a
    // closed stream.
    (void)!open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
  // A handler, because programs that this one starts get the usual behaviour back; an ignored signal they would inherit.
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
}

void print(const std::string& text) {
  if (fault != 0) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) note_fault();
}

int with_standard_output(int code, const std::function<void(const std::string&)>& report) {
  errno = 0;
  if (std::fflush(stdout) != 0) note_fault();
  if (fault == 0) return code;
  if (fault == EPIPE) return kReaderLeft;
  report(std::string("cannot write to standard output: ") + (fault == EBADF ? "it is closed" : std::strerror(fault)));
  return static_cast<int>(ExitCode::MachineCannot);
}

}  // namespace panpipe
