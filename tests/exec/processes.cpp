#include "tests/exec/processes.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A file of /proc; empty when the process ends meanwhile, which an iterator over the file would throw at.
std::string file_of(pid_t process, const char* name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string environment_of(pid_t process) { return std::string(1, '\0') + file_of(process, "environ"); }

// Seconds of processor time, and whether it is one that is only waiting to be buried.
double used(pid_t process, bool& dead) {
  const std::string text = file_of(process, "stat");
  dead = text.empty();
  if (dead) return 0;
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  double ticks = 0;
  for (int i = 3; fields >> field; ++i) {
    if (i == 3) dead = field == "Z";
    if (i == 14 || i == 15) ticks += std::stod(field);
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

Started::Started(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment,
                 const std::string& out)
    : start_(std::chrono::steady_clock::now()) {
  static int count = 0;
  mark_ = "PANPIPE_TEST_MARK=" + std::to_string(getpid()) + "-" + std::to_string(count++);
  const std::string folder = temporary_folder();
  out_ = out.empty() ? folder + "/out" : out;
  err_ = folder + "/err";
  process_ = fork();
  if (process_ != 0) return;
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PANPIPE_FAULT"}) unsetenv(name);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  putenv(mark_.data());
  setenv("NO_COLOR", "1", 1);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open(out_.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
  dup2(open(err_.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  if (chdir("..") == 0) execvp(words[0], words.data());
  _exit(127);
}

Started::Started(Started&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      mark_(std::move(other.mark_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      start_(other.start_) {}

Started::~Started() {
  if (process_ < 0) return;
  for (const pid_t member : family()) kill(member, SIGKILL);
  waitpid(process_, nullptr, 0);
}

std::vector<pid_t> Started::family() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t process = std::stoi(name);
    bool dead = false;
    used(process, dead);
    if (!dead && process != getpid() && environment_of(process).find('\0' + mark_ + '\0') != std::string::npos)
      found.push_back(process);
  }
  return found;
}

void Started::wait_for_rank_at_work(int rank) const {
  const std::string place = '\0' + ("RANK=" + std::to_string(rank)) + '\0';
  for (int i = 0; i < 600; ++i, std::this_thread::sleep_for(100ms)) {
    for (const pid_t member : family()) {
      if (rank < 0 ? member != process_ : environment_of(member).find(place) == std::string::npos) continue;
      bool dead = false;
      // Loading LibTorch takes about 0.3 s of processor time; training goes on from there.
      if (used(member, dead) > 1.5 && !dead) return;
    }
  }
  ADD_FAILURE() << "rank " << rank << " did not get to work: " << read_file(err_);
}

Ended Started::end() {
  Ended ended;
  int status = 0;
  for (int i = 0; i < 9000 && waitpid(process_, &status, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(10ms);
    if (i < 8999) continue;
    ADD_FAILURE() << "the run did not end within 90 s: " << read_file(err_);
    kill(process_, SIGKILL);
    waitpid(process_, &status, 0);
  }
  process_ = -1;
  ended.time = std::chrono::steady_clock::now() - start_;
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  for (int i = 0; i < 20 && !(ended.left_behind = family()).empty(); ++i) std::this_thread::sleep_for(50ms);
  for (const pid_t member : ended.left_behind) kill(member, SIGKILL);
  if (fs::is_regular_file(out_)) ended.out = read_file(out_);
  ended.err = read_file(err_);
  // How many cores there are for the ranks depends on the machine, not on what is tested.
  static const std::regex crowded("panpipe: \\d+ ranks[^\n]* run on the CPU, [^\n]*more ranks than cores[^\n]*\n");
  ended.err = std::regex_replace(ended.err, crowded, "");
  return ended;
}

Started start_panpipe(const std::string& arguments, const std::map<std::string, std::string>& environment,
                      const std::string& out) {
  const char* bin = std::getenv("PANPIPE_BIN");
  if (!bin) throw std::runtime_error("PANPIPE_BIN is not set; run through ctest");
  std::vector<std::string> command{std::string(bin) + "/panpipe"};
  std::istringstream words(arguments);
  for (std::string word; words >> word;) command.push_back(word);
  return Started(command, environment, out);
}

std::string small_scenario() {
  static const std::string file = [] {
    const std::string path = temporary_folder() + "/small.yaml";
    write_file(path,
               "panpipe: 1\n"
               "cluster: {devices: 2, memory: 4 GiB, link: {latency: 10 us, bandwidth: 10 GB/s}}\n"
               "workload: {model: gpt, layers: 2, hidden: 32, heads: 4, vocabulary: 96, sequence: 16}\n"
               "batch: {micro: 1, microbatches: 3}\n"
               "schedule: gpipe\n"
               "data: {synthetic: true}\n");
    return path;
  }();
  return file;
}

Listener::Listener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(socket_, 8), 0);
  getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
}
Listener::~Listener() { close(socket_); }

}  // namespace panpipe::test
