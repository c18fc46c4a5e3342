#include "sim/simgrid_module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>

#include "base/error.hpp"
#include "base/files/installation.hpp"
#include "base/stop.hpp"

namespace panpipe::sim {
namespace {

namespace fs = std::filesystem;

using MakeBackend = FlowBackend* (*)(const Network*);
constexpr const char* kModule = "panpipe_simgrid.so";

struct Module {
  MakeBackend make_backend = nullptr;
  std::string fault;
};

Module load() {
  const fs::path file = find_part(kModule);
  if (file.empty())
    return {nullptr, fmt::format("{} is not in {}: either this build was configured without SimGrid (PANPIPE_SIM=OFF), or the "
                                 "program was copied without the files that lie beside it",
                                 kModule, program_folder().string())};
  void* library = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!library) return {nullptr, fmt::format("cannot load {}: {}", file.string(), dlerror())};
  void* symbol = dlsym(library, "panpipe_simgrid_backend");
  if (!symbol) return {nullptr, fmt::format("{} is not of this version of panpipe", file.string())};
  return {reinterpret_cast<MakeBackend>(symbol), {}};
}

const Module& module() {
  static const Module loaded = load();
  return loaded;
}

// Memory that the child writes and the parent reads.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t size) : size_(size) {
    start_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (start_ == MAP_FAILED)
      throw MachineError(fmt::format("no memory for the simulation's result ({} MB): {}", size / 1000000, std::strerror(errno)));
  }
  ~SharedMemory() { munmap(start_, size_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  char* start() const { return static_cast<char*>(start_); }

 private:
  void* start_;
  std::size_t size_;
};

struct Head {
  bool done = false;
  std::int64_t activities = 0, flows = 0, finished = 0;
  char fault[500] = "";
};

// The parts of a record in their order in shared memory, after the head.
template <class Visit>
void each_part(EventRecord& record, Visit visit) {
  visit(record.task_start);
  visit(record.task_end);
  visit(record.transfer_start);
  visit(record.transfer_end);
  visit(record.uses);
  visit(record.waiting);
  visit(record.collectives);
}

// Collectives inside passes that run step by step, of one class.
std::size_t collectives_of_steps(const EventInput& input) {
  const TaskGraph& graph = *input.graph;
  std::size_t count = 0;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (task.lane != Lane::Compute || task.group_size == 0 || task.program < 0) continue;  // a group shares one program
    if (input.timers[t]) continue;
    for (const ProgramStep& step : steps_of(graph, graph.programs[task.program])) count += step.collective ? 1 : 0;
  }
  return count;
}

EventRecord empty_record(const EventInput& input) {
  const auto classes = static_cast<std::size_t>(input.folding->classes);
  EventRecord record;
  record.task_start.resize(input.graph->tasks.size() * classes);
  record.task_end.resize(record.task_start.size());
  record.transfer_start.resize(input.graph->transfers.size() * classes);
  record.transfer_end.resize(record.transfer_start.size());
  record.uses.resize(input.folding->network.resources.size());
  record.waiting.resize(record.task_start.size());
  record.collectives.resize(collectives_of_steps(input) * classes);
  return record;
}

[[noreturn]] void child(const EventInput& input, MakeBackend make_backend, char* shared) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // never outlive the program
  Head& head = *reinterpret_cast<Head*>(shared);
  const StopScope to_the_end(nullptr);  // the parent ends this process
  try {
    // Not deleted: the process ends here, and SimGrid takes longer to clean up than to simulate.
    FlowBackend* backend = make_backend(&input.folding->network);
    EventRecord record = run_events(input, *backend);
    char* place = shared + sizeof(Head);
    each_part(record, [&](const auto& part) {
      const std::size_t size = part.size() * sizeof(part[0]);
      if (size > 0) std::memcpy(place, part.data(), size);
      place += size;
    });
    head.activities = record.activities;
    head.flows = record.flows;
    head.finished = record.finished;
    head.done = true;
  } catch (const std::bad_alloc&) {
    std::strncpy(head.fault, "not enough memory", sizeof(head.fault) - 1);
  } catch (const std::exception& error) {
    std::strncpy(head.fault, error.what(), sizeof(head.fault) - 1);
  }
  _exit(0);
}

constexpr int kPollMilliseconds = 50;  // so soon a simulation that is taken back ends

// Ends the process once this work is taken back.
void watch(pid_t process) {
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (handle < 0) return;  // a kernel before 5.3: the simulation runs to its end
  pollfd ended{handle, POLLIN, 0};
  bool stopped = false;
  while (!stopped && poll(&ended, 1, kPollMilliseconds) <= 0) stopped = stop_flag()->load(std::memory_order_relaxed);
  close(handle);
  if (stopped) kill(process, SIGKILL);
}

void wait_for(pid_t process, const Head& head) {
  if (stop_flag() != nullptr) watch(process);
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) throw MachineError(fmt::format("lost the process that simulates: {}", std::strerror(errno)));
  }
  throw_if_stopped();
  if (head.done) return;
  if (head.fault[0] != 0) throw MachineError(fmt::format("SimGrid failed: {}", head.fault));
  if (WIFSIGNALED(status))
    throw MachineError(
        fmt::format("the process that simulates was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))));
  throw MachineError(fmt::format("the process that simulates ended early with code {}", WEXITSTATUS(status)));
}

}  // namespace

const std::string& why_no_simgrid() { return module().fault; }

EventRecord run_events_in_simgrid(const EventInput& input) {
  if (!module().make_backend) throw MachineError(module().fault + kWithoutSimgrid);
  EventRecord record = empty_record(input);
  std::size_t size = sizeof(Head);
  each_part(record, [&](const auto& part) { size += part.size() * sizeof(part[0]); });
  const SharedMemory shared(size);
  const Head& head = *new (shared.start()) Head;
  std::fflush(nullptr);  // SimGrid flushes: the child must not inherit what is not yet written
  const pid_t process = fork();
  if (process < 0) throw MachineError(fmt::format("cannot start the process that simulates: {}", std::strerror(errno)));
  if (process == 0) child(input, module().make_backend, shared.start());
  wait_for(process, head);
  const char* place = shared.start() + sizeof(Head);
  each_part(record, [&](auto& part) {
    const std::size_t bytes = part.size() * sizeof(part[0]);
    if (bytes > 0) std::memcpy(part.data(), place, bytes);
    place += bytes;
  });
  record.activities = head.activities;
  record.flows = head.flows;
  record.finished = head.finished;
  return record;
}

}  // namespace panpipe::sim
