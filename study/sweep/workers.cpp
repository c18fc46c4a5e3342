#include "study/sweep/workers.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/error.hpp"

namespace panpipe::study {
namespace {

constexpr int kPollMilliseconds = 200;  // a signal between a look at `stop` and the wait for answers is noticed after this

bool send_all(int socket, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(socket, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// Jobs come in as numbers, answers go out with their length in front, until the other end is closed.
[[noreturn]] void serve(int socket, pid_t parent, const Workers& workers) {
  setpgid(0, 0);  // Ctrl-C reaches the parent alone, and the parent ends this group: a simulation is a child of ours
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::uint64_t job = 0;
  while (receive_all(socket, &job, sizeof job)) {
    const std::string answer = workers.work(job);
    const std::uint64_t size = answer.size();
    if (!send_all(socket, &size, sizeof size) || !send_all(socket, answer.data(), answer.size())) break;
  }
  _exit(0);
}

class Pool {
 public:
  Pool(const std::vector<std::size_t>& jobs, const Workers& workers) : jobs_(jobs), workers_(workers) {}
  ~Pool() {
    for (Worker& worker : pool_) end(worker);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  bool run() {
    const std::size_t count = std::min(jobs_.size(), static_cast<std::size_t>(std::max(1, workers_.count)));
    pool_.resize(count);
    for (Worker& worker : pool_) start(worker);
    for (Worker& worker : pool_) next(worker);
    while (open_ > 0) {
      if (workers_.stop && workers_.stop->load()) return false;
      wait_for_answers();
    }
    return true;
  }

 private:
  struct Worker {
    pid_t process = -1;
    int socket = -1;
    std::optional<std::size_t> job;
    std::string received;
  };

  void start(Worker& worker) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw MachineError(fmt::format("cannot start a worker: {}", std::strerror(errno)));
    std::fflush(nullptr);  // else both processes would write what is still in buffers
    const pid_t parent = getpid();
    const pid_t process = fork();
    if (process == 0) {
      close(ends[0]);
      for (const Worker& other : pool_)
        if (other.socket >= 0) close(other.socket);
      serve(ends[1], parent, workers_);
    }
    close(ends[1]);
    if (process < 0) {
      close(ends[0]);
      throw MachineError(fmt::format("cannot start a worker: {}", std::strerror(errno)));
    }
    setpgid(process, process);
    worker = {process, ends[0], std::nullopt, ""};
  }

  void end(Worker& worker) {
    if (worker.process < 0) return;
    kill(-worker.process, SIGKILL);
    reap(worker);
  }

  std::string reap(Worker& worker) {
    int status = 0;
    while (waitpid(worker.process, &status, 0) < 0 && errno == EINTR) {
    }
    close(worker.socket);
    worker.process = worker.socket = -1;
    return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("exit code {}", WEXITSTATUS(status));
  }

  void next(Worker& worker) {
    if (next_ == jobs_.size()) return;
    worker.job = jobs_[next_++];
    ++open_;
    const std::uint64_t job = *worker.job;
    send_all(worker.socket, &job, sizeof job);  // a worker that died is noticed by its closed socket
  }

  void wait_for_answers() {
    std::vector<pollfd> sockets;
    for (const Worker& worker : pool_) sockets.push_back({worker.socket, POLLIN, 0});
    if (poll(sockets.data(), sockets.size(), kPollMilliseconds) <= 0) return;
    for (std::size_t i = 0; i < sockets.size(); ++i)
      if (sockets[i].revents != 0) take(pool_[i]);
  }

  void take(Worker& worker) {
    char buffer[65536];
    const ssize_t got = recv(worker.socket, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) return replace(worker);
    worker.received.append(buffer, static_cast<std::size_t>(got));
    std::uint64_t size = 0;
    if (worker.received.size() < sizeof size) return;
    std::memcpy(&size, worker.received.data(), sizeof size);
    if (worker.received.size() < sizeof size + size) return;
    const std::string answer = worker.received.substr(sizeof size);
    const std::size_t job = *worker.job;
    worker.received.clear();
    worker.job.reset();
    --open_;
    next(worker);
    workers_.done(job, answer);
  }

  void replace(Worker& worker) {
    const std::string how = reap(worker);
    if (!worker.job) return;
    const std::size_t job = *worker.job;
    worker.job.reset();
    --open_;
    workers_.died(job, how);
    if (next_ == jobs_.size()) return;
    start(worker);
    next(worker);
  }

  const std::vector<std::size_t>& jobs_;
  const Workers& workers_;
  std::vector<Worker> pool_;
  std::size_t next_ = 0;  // job to hand out
  std::size_t open_ = 0;  // handed out, not answered
};

}  // namespace

bool run_jobs(const std::vector<std::size_t>& jobs, const Workers& workers) { return jobs.empty() || Pool(jobs, workers).run(); }

}  // namespace panpipe::study
