#include "cli/selftest/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "base/error.hpp"
#include "cli/stop_on_signal.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/sockets.hpp"

namespace panpipe::cli {
namespace {

// The limit of a stream, because a broken program may write without end.
constexpr std::size_t kMostKept = 4 << 20;

[[noreturn]] void be_child(const std::function<int()>& body, pid_t parent, const exec::Pipe& out, const exec::Pipe& err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the line above
  setpgid(0, 0);                      // Ctrl-C of the terminal comes through the parent
  for (const int each : {SIGINT, SIGTERM, SIGALRM}) signal(each, SIG_DFL);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  out.take_over(STDOUT_FILENO);
  err.take_over(STDERR_FILENO);
  setenv("NO_COLOR", "1", 1);
  int code = static_cast<int>(ExitCode::Bug);
  try {
    code = body();
  } catch (const MachineError& error) {
    std::fprintf(stderr, "panpipe: this machine cannot: %s\n", error.what());
    code = static_cast<int>(ExitCode::MachineCannot);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "panpipe: %s\n", error.what());
  }
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

ChildEnd run_child(const std::function<int()>& body, double seconds, const std::function<void()>& pulse) {
  if (stop_requested()) throw Interrupted();
  ChildEnd end;
  exec::Pipe out("a pipe"), err("a pipe");
  std::fflush(nullptr);  // else both would write it
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw MachineError(std::string("cannot start a process: ") + std::strerror(errno));
  if (child == 0) be_child(body, parent, out, err);
  out.close_write();
  err.close_write();
  const auto started = std::chrono::steady_clock::now();
  int status = 0;
  bool stopped = false;
  for (bool talks = true, runs = true; talks || runs;) {
    std::array<pollfd, 2> streams{pollfd{out.descriptor(), POLLIN, 0}, pollfd{err.descriptor(), POLLIN, 0}};
    if (talks)
      poll(streams.data(), streams.size(), 100);
    else
      poll(nullptr, 0, 10);
    const bool first = out.read(end.out, kMostKept), second = err.read(end.err, kMostKept);
    talks = first || second;
    if (runs && waitpid(child, &status, WNOHANG) == child) runs = false;
    if (!runs) {  // what it started may hold the streams open for a moment; nothing of it counts any more
      out.read(end.out, kMostKept);
      err.read(end.err, kMostKept);
      break;
    }
    pulse();
    end.too_long = !stopped && std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() > seconds;
    if (!stopped && (end.too_long || stop_requested())) {
      stopped = true;
      // The ranks of a run end with their launcher (PR_SET_PDEATHSIG).
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
  }
  if (stop_requested()) throw Interrupted();
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

std::function<int()> this_program(const char* verb, std::vector<std::string> arguments) {
  std::error_code ignored;
  arguments.insert(arguments.begin(), {std::filesystem::read_symlink("/proc/self/exe", ignored).string(), verb});
  return [arguments = std::move(arguments)]() -> int { exec::become_program(arguments); };
}

std::string last_words(const ChildEnd& end) {
  if (end.too_long) return "it did not end in its time";
  // Lines that sound like a fault, without progress messages; where none does, all of Panpipe's lines.
  const auto sounds_wrong = [](const std::string& line) {
    for (const char* word : {"error", "failed", "cannot", "lost", "killed", "did not end", "bug"})
      if (line.find(word) != std::string::npos) return true;
    return false;
  };
  std::string found, all, seen;
  std::istringstream lines(end.err);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("panpipe") == std::string::npos && !sounds_wrong(line)) continue;
    // A line that several ranks print is taken once.
    const std::string sentence =
        "\n" + line.substr(line.rfind("[rank ", 0) == 0 ? std::min(line.find("] ") + 2, line.size()) : 0);
    if (seen.find(sentence) != std::string::npos) continue;
    seen += sentence;
    std::string& list = sounds_wrong(line) ? found : all;
    list += (list.empty() ? "" : "; ") + line;
  }
  if (found.empty()) found = all;
  constexpr std::size_t kMost = 600;
  if (found.size() > kMost) found = found.substr(0, kMost) + "...";
  return found.empty() ? fmt::format("exit code {}, without a word", end.exit_code) : found;
}

}  // namespace panpipe::cli
