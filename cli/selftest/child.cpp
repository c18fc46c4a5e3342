#include "cli/selftest/child.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "cli/stop_on_signal.hpp"
#include "exec/launch/child.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/sockets.hpp"

namespace panpipe::cli {
namespace {

// A broken program may write without end.
constexpr std::size_t kMostMebibytes = 64;

}  // namespace

ChildEnd run_child(const std::function<int()>& body, double seconds, const std::function<void()>& pulse) {
  if (stop_requested()) throw Interrupted();
  ChildEnd end;
  exec::Pipe out("a pipe"), err("a pipe");
  exec::Child child("a process", [&] {
    out.take_over(STDOUT_FILENO);
    err.take_over(STDERR_FILENO);
    setenv("NO_COLOR", "1", 1);
    return body();
  });
  out.close_write();
  err.close_write();
  const auto started = std::chrono::steady_clock::now();
  for (bool talks = true; child.running();) {
    std::array<pollfd, 2> streams{pollfd{out.descriptor(), POLLIN, 0}, pollfd{err.descriptor(), POLLIN, 0}};
    poll(streams.data(), talks ? streams.size() : 0, talks ? 100 : 10);
    // What it started may hold the streams open for a moment; nothing of that counts any more.
    const bool ended = child.ended(), first = out.read(end.out), second = err.read(end.err);
    if (ended) break;
    talks = first || second;
    pulse();
    end.too_long = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() > seconds;
    end.too_much = end.out.size() + end.err.size() > kMostMebibytes << 20;
    // The ranks of a run end with their launcher.
    if (end.too_long || end.too_much || stop_requested()) child.end();
  }
  if (stop_requested()) throw Interrupted();
  const int status = child.status();
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
  if (end.too_much) return fmt::format("it wrote more than {} MiB", kMostMebibytes);
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
