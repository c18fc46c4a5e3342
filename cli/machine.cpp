#include "cli/machine.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/files/installation.hpp"
#include "base/input/reader.hpp"
#include "exec/launch/host.hpp"
#include "exec/launch/libtorch.hpp"
#include "sim/simulate.hpp"
#include "validation/fit/fit.hpp"

namespace panpipe::cli {
namespace {

namespace fs = std::filesystem;

void look_at_data(Machine& machine) {
  std::error_code ignored;
  machine.data_folder = data_directory();
  machine.data_found = fs::is_directory(machine.data_folder, ignored);
  const char* variable = std::getenv("PANPIPE_DATA");
  if (variable != nullptr && *variable != '\0')
    machine.data_why = "PANPIPE_DATA names it";
  else if (const fs::path shared = installation_prefix() / "share" / "panpipe";
           fs::is_directory(shared, ignored) && !fs::is_symlink(shared, ignored))
    machine.data_why = "beside the installed program";
  else
    machine.data_why = "the source tree that the program was built from";
}

// "2.27.5" for 2 x 10000 + 27 x 100 + 5, NCCL's own number since 2.9 (nccl.h, NCCL_VERSION).
std::string nccl_version(void* library) {
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  int number = 0;
  if (version == nullptr || version(&number) != 0) return "";
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

// The one that LibTorch's wheel brings, else the system's.
void look_at_nccl(Machine& machine) {
  std::vector<std::string> files;
  if (!machine.libtorch.empty()) {
    const fs::path file = fs::path(machine.libtorch).parent_path() / "nvidia" / "nccl" / "lib" / "libnccl.so.2";
    if (std::error_code ignored; fs::exists(file, ignored)) files.push_back(file.lexically_normal().string());
  }
  files.emplace_back("libnccl.so.2");
  for (const std::string& file : files) {
    void* library = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) continue;
    machine.nccl = file;
    machine.nccl_version = nccl_version(library);
    dlclose(library);
    return;
  }
}

void look_at_executor(Machine& machine) {
  machine.executor = find_part("panpipe-exec").string();
  machine.executor_nccl = !find_part("panpipe_nccl.so").empty();
  const exec::FoundLibTorch found = exec::find_libtorch();
  machine.libtorch = found.folder;
  machine.libtorch_version = found.version;
  machine.libtorch_why = found.why;
  machine.libtorch_wanted = found.built_with;
  machine.libtorch_looked = found.looked;
  std::error_code ignored;
  machine.libtorch_cuda =
      !machine.libtorch.empty() && fs::exists(fs::path(machine.libtorch) / "lib" / "libtorch_cuda.so", ignored);
  machine.gpus = find_gpus();
  look_at_nccl(machine);
}

// The memory in /proc/meminfo that programs can still take, without the memory in use.
std::int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    std::int64_t kibibytes = 0;
    if (!(file >> kibibytes)) break;
    std::getline(file, unit);
    if (name == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

// Ranks find each other at a port of this address.
std::string listen_on_loopback() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return std::strerror(errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool listens =
      bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && listen(listener, 1) == 0;
  const std::string why = listens ? "" : std::strerror(errno);
  close(listener);
  return why;
}

void look_at_host(Machine& machine) {
  machine.cores = exec::host_cores();
  machine.cores_of_machine = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (getloadavg(&machine.load, 1) != 1) machine.load = 0;
  machine.memory = exec::host_memory();
  machine.memory_of_machine = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  machine.memory_available = std::min(available_memory(), machine.memory);
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) == 0) {
    machine.shared_memory = static_cast<std::int64_t>(shared.f_blocks) * static_cast<std::int64_t>(shared.f_frsize);
    machine.shared_memory_free = static_cast<std::int64_t>(shared.f_bavail) * static_cast<std::int64_t>(shared.f_frsize);
  }
  machine.ports_problem = listen_on_loopback();
}

}  // namespace

Machine look_at_machine() {
  Machine machine;
  look_at_data(machine);
#ifdef PANPIPE_SIMGRID_VERSION
  machine.simgrid_version = PANPIPE_SIMGRID_VERSION;
#endif
  machine.simgrid_problem = sim::why_no_backend(sim::Backend::SimGrid);
  machine.ceres = validation::fit_available();
  look_at_executor(machine);
  look_at_host(machine);
  return machine;
}

}  // namespace panpipe::cli
