// The processes of one host's ranks, from start to end.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "base/files/standard_output.hpp"
#include "exec/launch/child.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/sockets.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {
namespace {

using Steady = std::chrono::steady_clock;

// Beyond the deadline, for processes to end.
constexpr auto kGrace = std::chrono::seconds(2);

struct Rank {
  std::optional<Child> process;
  int turn = 0;              // 1 = ended first
  std::optional<Pipe> talk;  // its standard error (and output, of all but rank 0), until its end
  std::string rest;
  std::string error;  // lines that it marked as its final error
  bool running() const { return process && process->running(); }
  bool failed() const { return !running() && process->status() != 0; }
  int exit_code() const { return WIFEXITED(process->status()) ? WEXITSTATUS(process->status()) : 1; }
};

class Ranks {
 public:
  Ranks(const std::vector<std::string>& command, int count, double deadline_s, OnInterrupt on_interrupt)
      : command_(command),
        on_interrupt_(on_interrupt),
        deadline_(std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(deadline_s))),
        ranks_(static_cast<std::size_t>(count)) {
    sigset_t awaited;
    sigemptyset(&awaited);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&awaited, signal);
    sigprocmask(SIG_BLOCK, &awaited, &before_);
    signals_ = Handle(signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK));
    signal(SIGPIPE, SIG_IGN);
    std::random_device random;
    token_ = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
    int port = 0;
    const Handle master = listener_at("127.0.0.1", port);  // rank 0 takes it over
    if (!master.open()) throw MachineError(fmt::format("cannot open a port for the ranks to meet: {}", std::strerror(errno)));
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) start(rank, master.get(), port);
  }
  ~Ranks() {
    ranks_.clear();
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  int wait() {
    while (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running() || rank.talk; })) {
      std::vector<pollfd> sockets{{signals_.get(), POLLIN, 0}};
      for (const Rank& rank : ranks_)
        if (rank.talk) sockets.push_back({rank.talk->descriptor(), POLLIN, 0});
      poll(sockets.data(), sockets.size(), 100);
      for (std::size_t i = 0; i < ranks_.size(); ++i) read(i);
      read_signals();
      reap();
      if (failure_ && Steady::now() > *failure_ + deadline_ + kGrace) give_up("after the failure");
      if (stopping_ && !failure_ && !writing_ && Steady::now() > *stopping_ + 2 * longest_step_ + deadline_ + kGrace)
        give_up("after it was asked to stop");
    }
    return report_errors();
  }

 private:
  void start(std::size_t number, int master, int port) {
    Rank& rank = ranks_[number];
    rank.talk.emplace("a pipe for a rank");
    const auto become_rank = [&]() -> int {
      sigprocmask(SIG_SETMASK, &before_, nullptr);
      if (number != 0) rank.talk->take_over(STDOUT_FILENO);
      rank.talk->take_over(STDERR_FILENO);
      const std::string place = std::to_string(number), size = std::to_string(ranks_.size());
      const std::pair<const char*, std::string> variables[] = {
          {"RANK", place},      {"LOCAL_RANK", place},      {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)},
          {"WORLD_SIZE", size}, {"LOCAL_WORLD_SIZE", size}, {kLaunchedVariable, "1"},     {kTokenVariable, token_}};
      for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
      // Without close-on-exec.
      if (number == 0) setenv(kMasterSocketVariable, std::to_string(dup(master)).c_str(), 1);
      become_program(command_);
    };
    const char mark[] = {kErrorMark, '\0'};
    rank.process.emplace("a rank", become_rank, mark);
    rank.talk->close_write();
  }

  void end_all(int signal) {
    for (const Rank& rank : ranks_) rank.process->send(signal);
  }

  // Passes on a rank's output, line by line; its final error is held until the end.
  void read(std::size_t number) {
    Rank& rank = ranks_[number];
    if (rank.talk && !rank.talk->read(rank.rest)) {
      rank.talk.reset();
      if (!rank.rest.empty() && rank.rest.back() != '\n') rank.rest += '\n';
    }
    for (std::size_t end; (end = rank.rest.find('\n')) != std::string::npos; rank.rest.erase(0, end + 1)) {
      const std::string line = rank.rest.substr(0, end);
      if (number == 0 && !line.empty() && (line[0] == kStepMark || line[0] == kWritingMark))
        between_steps(line[0] == kWritingMark);
      else if (!line.empty() && line[0] == kErrorMark)
        rank.error += line.substr(1) + "\n";
      else
        std::fputs(fmt::format("[rank {}] {}\n", number, line).c_str(), stderr);
    }
  }

  void between_steps(bool writing) {
    const auto now = Steady::now();
    if (step_since_ && !writing_) longest_step_ = std::max(longest_step_, now - *step_since_);
    step_since_ = now;
    if (stopping_) stopping_ = now;
    writing_ = writing;
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      if (info.ssi_signo == SIGCHLD) continue;
      if (interrupts_++ == 0 && on_interrupt_ == OnInterrupt::EndNow && ranks_[0].running()) {
        ending_ = true;
        ranks_[0].process->send(SIGTERM);
      } else if (interrupts_ == 1 && on_interrupt_ == OnInterrupt::EndStep) {
        std::fputs(
            "panpipe: stopping: the ranks end their step and write a checkpoint where one is asked for; once more ends them "
            "now\n",
            stderr);
        stopping_ = Steady::now();
        end_all(static_cast<int>(info.ssi_signo) == SIGHUP ? SIGTERM : static_cast<int>(info.ssi_signo));
      } else {
        end_all(SIGKILL);
      }
    }
  }

  void reap() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (!rank.process->ended()) continue;
      rank.turn = ++ended_;
      read(i);
      rank.talk.reset();  // its own children must not delay this process
      if (stopped()) end_all(SIGKILL);
      if (!rank.failed() || interrupts_ > 1 || stopped()) continue;
      if (!failure_) failure_ = Steady::now();
      if (given_up_) continue;
      if (const int status = rank.process->status(); WIFSIGNALED(status))
        std::fputs(
            fmt::format("panpipe: rank {} was killed by signal {} ({})\n", i, WTERMSIG(status), strsignal(WTERMSIG(status)))
                .c_str(),
            stderr);
      else if (rank.error.empty() && rank.exit_code() != kReaderLeft)
        std::fputs(fmt::format("panpipe: rank {} ended with exit code {}\n", i, rank.exit_code()).c_str(), stderr);
    }
  }

  // Ended by Ctrl-C, and nothing is kept.
  bool stopped() const { return ending_ && ranks_[0].failed(); }

  // The others had their time.
  void give_up(const char* when) {
    failure_.reset();
    stopping_.reset();
    given_up_ = true;
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (ranks_[i].running())
        std::fputs(fmt::format("panpipe: rank {} did not end within {:.3g} s {} and was killed\n", i,
                               std::chrono::duration<double>(deadline_).count(), when)
                       .c_str(),
                   stderr);
    end_all(SIGKILL);
  }

  // Prints every different error once, that of the first failed rank first, and returns the exit code.
  int report_errors() {
    if (stopped()) {
      std::fputs(kNoProfile, stderr);
      return 130;
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (ranks_[i].failed()) order.push_back(i);
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) { return ranks_[a].turn < ranks_[b].turn; });
    std::vector<std::string> reported;
    for (const std::size_t i : order) {
      const std::string& text = ranks_[i].error;
      if (text.empty() || std::find(reported.begin(), reported.end(), text) != reported.end()) continue;
      reported.push_back(text);
      const bool everybody = std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.error == text; });
      std::string line;
      for (std::size_t begin = 0; begin < text.size(); begin += line.size() + 1) {
        line = text.substr(begin, text.find('\n', begin) - begin);
        std::fputs(((everybody ? "" : fmt::format("[rank {}] ", i)) + line + "\n").c_str(), stderr);
      }
    }
    if (interrupts_ > 1) return 130;
    // A rank that only lost its peer ends with 1; the peer's own code is more precise.
    int code = 0;
    for (const std::size_t i : order)
      if (code == 0 || (code == 1 && ranks_[i].exit_code() != 1)) code = ranks_[i].exit_code();
    return code;
  }

  const std::vector<std::string>& command_;
  OnInterrupt on_interrupt_;
  Steady::duration deadline_;
  sigset_t before_{};
  Handle signals_;
  std::vector<Rank> ranks_;
  int ended_ = 0, interrupts_ = 0;
  bool given_up_ = false;
  // A stop that was asked for comes after the step under way, and a hung rank never comes to it.
  std::optional<Steady::time_point> stopping_, step_since_;
  Steady::duration longest_step_{};
  bool writing_ = false;
  std::string token_;
  bool ending_ = false;  // EndNow, and rank 0 was informed
  std::optional<Steady::time_point> failure_;
};

}  // namespace

int run_ranks(const std::vector<std::string>& command, int ranks, double deadline_s, OnInterrupt on_interrupt) {
  return Ranks(command, ranks, deadline_s, on_interrupt).wait();
}

}  // namespace panpipe::exec
