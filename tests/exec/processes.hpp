// Programs that a test starts, with their output and the files that they leave behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace panpipe::test {

struct Ended {
  int exit_code = 0;     // negative: the signal
  std::string out, err;  // err without the note that there are more ranks than cores
  std::chrono::duration<double> time{};
  std::vector<pid_t> left_behind;  // processes that it started, or their children, which still live a second later
};

class Started {
 public:
  Started(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment, const std::string& out);
  Started(Started&& other) noexcept;
  Started(const Started&) = delete;
  ~Started();
  pid_t process() const { return process_; }
  // Until rank `rank` (-1: the process itself) has used processor time for training; fails the test after some time.
  void wait_for_rank_at_work(int rank) const;
  Ended end();

 private:
  std::vector<pid_t> family() const;  // by a mark in their environment
  pid_t process_ = -1;
  std::string mark_, out_, err_;
  std::chrono::steady_clock::time_point start_;
};

// `panpipe ARGUMENTS`, split at spaces, from the source folder.
Started start_panpipe(const std::string& arguments, const std::map<std::string, std::string>& environment = {},
                      const std::string& out = "");

// A model that trains in milliseconds, pipelined over two ranks by gpipe with three microbatches.
std::string small_scenario();

// It, run with a deadline of 2 s. The two processes load LibTorch, on a machine that may be busy with other tests.
inline std::string small_run(const std::string& options) {
  return "run " + small_scenario() + " --deadline 2 --no-progress --threads 1 " + options;
}
constexpr std::chrono::seconds kStart{20};

class Listener {
 public:
  Listener();
  ~Listener();
  int port() const { return port_; }

 private:
  int socket_ = -1, port_ = 0;
};

}  // namespace panpipe::test
