#include "exec/launch/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"

namespace panpipe::exec {
namespace {

[[noreturn]] void run_child_process(const std::function<int()>& body, pid_t parent, const char* mark) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the line above
  setpgid(0, 0);
  for (const int each : {SIGINT, SIGTERM, SIGALRM, SIGPIPE}) signal(each, SIG_DFL);
  struct stat input {};  // a file may hold the scenario (`panpipe run - < s.yaml`); nobody reads what a person types
  if (fstat(STDIN_FILENO, &input) != 0 || !S_ISREG(input.st_mode)) dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  auto code = static_cast<int>(ExitCode::Bug);
  try {
    code = body();
  } catch (const MachineError& error) {
    std::fprintf(stderr, "%spanpipe: this machine cannot: %s\n", mark, error.what());
    code = static_cast<int>(ExitCode::MachineCannot);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%spanpipe: %s\n", mark, error.what());
  }
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

Child::Child(const char* name, const std::function<int()>& body, const char* mark) {
  std::fflush(nullptr);  // else both would write it
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) throw MachineError(fmt::format("cannot start {}: {}", name, std::strerror(errno)));
  if (process_ == 0) run_child_process(body, parent, mark);
}

bool Child::ended() {
  if (!running() || waitpid(process_, &status_, WNOHANG) != process_) return false;
  process_ = -1;
  return true;
}

void Child::send(int signal) const {
  if (running()) kill(process_, signal);
}

void Child::end() {
  if (!running()) return;
  kill(-process_, SIGKILL);
  kill(process_, SIGKILL);
  waitpid(process_, &status_, 0);
  process_ = -1;
}

}  // namespace panpipe::exec
