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
#include <string>
#include <utility>
#include <vector>

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

// What the child found, in the order in which it writes it.
struct Found {
  std::string fault;
  std::vector<std::int64_t> counts;  // activities, flows, finished
  EventRecord record;
};
template <class Visit>
void each_part(Found& found, Visit visit) {
  visit(found.fault);
  visit(found.counts);
  visit(found.record.task_start);
  visit(found.record.task_end);
  visit(found.record.transfer_start);
  visit(found.record.transfer_end);
  visit(found.record.uses);
  visit(found.record.waiting);
  visit(found.record.collectives);
}

// In memory; the child writes it, and the parent reads it when the child has ended.
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File make_file() {
  const int handle = memfd_create("simulation", MFD_CLOEXEC);
  File file(handle < 0 ? nullptr : fdopen(handle, "w+"), std::fclose);
  if (!file) throw MachineError(fmt::format("no memory for the simulation's result: {}", std::strerror(errno)));
  return file;
}

bool write_to(std::FILE* file, Found found) {
  each_part(found, [&](const auto& part) {
    const std::size_t size = part.size();
    std::fwrite(&size, sizeof(size), 1, file);
    if (size > 0) std::fwrite(part.data(), sizeof(part[0]), size, file);
  });
  return std::fflush(file) == 0 && std::ferror(file) == 0;
}

Found read_from(std::FILE* file) {
  Found found;
  std::rewind(file);
  each_part(found, [&](auto& part) {
    std::size_t size = 0;
    if (std::fread(&size, sizeof(size), 1, file) == 1) part.resize(size);
    if (size > 0 && std::fread(part.data(), sizeof(part[0]), size, file) != size) part.clear();
  });
  return found;
}

[[noreturn]] void child(const EventInput& input, MakeBackend make_backend, std::FILE* file) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);     // never outlive the program
  const StopScope to_the_end(nullptr);  // the parent ends this process
  Found found;
  try {
    // Not deleted: the process ends here, and SimGrid takes longer to clean up than to simulate.
    FlowBackend* backend = make_backend(&input.folding->network);
    found.record = run_events(input, *backend);
    found.counts = {found.record.activities, found.record.flows, found.record.finished};
  } catch (const std::bad_alloc&) {
    found.fault = "not enough memory";
  } catch (const std::exception& error) {
    found.fault = error.what();
  }
  _exit(write_to(file, std::move(found)) ? 0 : 1);
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

EventRecord wait_for(pid_t process, std::FILE* file) {
  if (stop_flag() != nullptr) watch(process);
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) throw MachineError(fmt::format("lost the process that simulates: {}", std::strerror(errno)));
  }
  throw_if_stopped();
  if (WIFSIGNALED(status))
    throw MachineError(
        fmt::format("the process that simulates was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))));
  Found found = read_from(file);
  if (!found.fault.empty()) throw MachineError(fmt::format("SimGrid failed: {}", found.fault));
  if (WEXITSTATUS(status) != 0 || found.counts.empty())
    throw MachineError(fmt::format("the process that simulates ended early with code {}", WEXITSTATUS(status)));
  found.record.activities = found.counts[0];
  found.record.flows = found.counts[1];
  found.record.finished = found.counts[2];
  return std::move(found.record);
}

}  // namespace

const std::string& why_no_simgrid() { return module().fault; }

EventRecord run_events_in_simgrid(const EventInput& input) {
  if (!module().make_backend) throw MachineError(module().fault + kWithoutSimgrid);
  const File file = make_file();
  std::fflush(nullptr);  // SimGrid flushes: the child must not inherit what is not yet written
  const pid_t process = fork();
  if (process < 0) throw MachineError(fmt::format("cannot start the process that simulates: {}", std::strerror(errno)));
  if (process == 0) child(input, module().make_backend, file.get());
  return wait_for(process, file.get());
}

}  // namespace panpipe::sim
