#include "tests/cli/program.hpp"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace panpipe::test {
namespace fs = std::filesystem;

namespace {

std::string program() {
  const char* bin = std::getenv("PANPIPE_BIN");
  if (!bin) throw std::runtime_error("PANPIPE_BIN is not set; run through ctest");
  return "'" + std::string(bin) + "/panpipe' ";
}

}  // namespace

std::string temporary_folder() {
  static int count = 0;
  const std::string folder = scratch().file(std::to_string(count++));
  fs::create_directories(folder);
  return folder;
}

Outcome panpipe(const std::string& arguments, const std::string& out) {
  const std::string folder = temporary_folder();
  const std::string command = "cd .. && LC_ALL=C.UTF-8 NO_COLOR=1 " + program() + arguments + " >" +
                              (out.empty() ? folder + "/out" : out) + " 2>" + folder + "/err </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out.empty() ? read_file(folder + "/out") : "",
          read_file(folder + "/err")};
}

std::string answer_of(const std::string& arguments) {
  const Outcome run = panpipe(arguments);
  EXPECT_EQ(run.exit_code, 0) << "panpipe " << arguments << "\n" << run.err;
  return run.out;
}

std::string refusal_of(const std::string& arguments) {
  const Outcome run = panpipe(arguments);
  EXPECT_EQ(run.exit_code, 2) << "panpipe " << arguments << "\n" << run.err;
  EXPECT_EQ(run.out, "") << "panpipe " << arguments;
  return run.err;
}

Outcome panpipe_after(const std::string& before, const std::string& arguments) {
  const std::string folder = temporary_folder();
  const std::string command =
      "cd .. && export NO_COLOR=1 && " + before + " " + program() + arguments + " >" + folder + "/out 2>" + folder + "/err";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder + "/out"), read_file(folder + "/err")};
}

Outcome panpipe_on_terminal(const std::string& arguments, int columns, const std::string& variables) {
  winsize size{};
  size.ws_row = 50;
  size.ws_col = static_cast<unsigned short>(columns);
  const std::string command =
      "cd .. && unset COLUMNS NO_COLOR; LC_ALL=C.UTF-8 TERM=xterm " + variables + " " + program() + arguments;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) throw std::runtime_error("no terminal");
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  Outcome outcome;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(terminal, buffer, sizeof buffer)) > 0;)
    outcome.out.append(buffer, static_cast<std::size_t>(got));
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

}  // namespace panpipe::test
