#include "cli/selftest/trial.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/run_option_checks.hpp"
#include "exec/launch/visible_gpus.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::cli {
namespace {

namespace fs = std::filesystem;

// The memory of a rank of the small models on the CPU, with LibTorch, is 100 to 300 MiB, which leaves enough for other programs.
constexpr std::int64_t kMemoryForFour = std::int64_t{6} << 30;
constexpr int kMostRanks = 16;  // more show nothing new, and take long

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::error_code ignored;
  const fs::path place = fs::temp_directory_path(ignored);
  path_ = ((place.empty() ? fs::path("/tmp") : place) / "panpipe-selftest-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr)
    throw MachineError(fmt::format("cannot make a temporary folder {}: {}", path_, std::strerror(errno)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& text) const {
  write_file(file(name), text);
  return file(name);
}

Trial::Trial(SelftestRequest asked) : request(std::move(asked)) {
  if (!request.device.empty()) exec::one_of("--device", request.device, {"cpu", "cuda"});
  if (const auto world = exec::world_of_environment())
    throw InputError(fmt::format("panpipe selftest starts its ranks itself: call it once, without {}", world->launcher));
  if (!request.cluster.empty()) {
    ReadLog log;
    cluster = load_cluster(request.cluster, log);
    log.throw_if_errors();
  }
  exec::executor_program();
  machine = look_at_machine();
  device = !request.device.empty() ? request.device : machine.gpus.visible > 0 && machine.libtorch_cuda ? "cuda" : "cpu";
  if (!on_gpus()) return;
  if (gpus() == 0)
    throw MachineError("--device cuda: no GPU that programs may see: " +
                       (machine.gpus.problem.empty() ? "CUDA_VISIBLE_DEVICES hides them" : machine.gpus.problem));
  if (const exec::DriverFit fit =
          exec::driver_fit(machine.gpus.driver, machine.gpus.cuda, exec::cuda_of_torch(machine.libtorch_version));
      !fit.problem.empty())
    throw MachineError("--device cuda: " + fit.problem + ": " + fit.remedy + ", or give --device cpu");
  if (!machine.libtorch_cuda)
    throw MachineError(
        "--device cuda: this LibTorch comes without CUDA: install a torch package with CUDA, or give --device cpu");
}

std::vector<int> Trial::worlds() const {
  const int most = std::min(gpus(), kMostRanks);
  if (request.quick && (!on_gpus() || most < 2)) return {2};
  if (!on_gpus()) return machine.memory_available >= kMemoryForFour ? std::vector<int>{2, 4} : std::vector<int>{2};
  if (most < 2) return {2};
  std::vector<int> all;
  for (int ranks = 2; ranks < most; ranks *= 2)
    if (!request.quick) all.push_back(ranks);
  all.push_back(most);
  return all;
}

std::string Trial::transport(int ranks) const { return !on_gpus() ? "gloo" : ranks <= gpus() ? "nccl" : "local"; }

std::string Trial::ranks_text(int ranks) const {
  if (!on_gpus()) return fmt::format("{} processes", ranks);
  return ranks <= gpus() ? fmt::format("{} GPUs", ranks) : fmt::format("{} ranks on one GPU", ranks);
}

exec::RunRequest Trial::run_request(const std::string& scenario, const std::string& transport) const {
  exec::RunRequest run;
  run.scenario = scenario;
  run.device = device;
  run.transport = transport;
  run.progress = false;
  run.deadline_s = 60;
  return run;
}

ChildEnd Trial::run(const std::function<int()>& body, double seconds) {
  return run_child(body, seconds, [this] {
    if (on_gpus()) load.look();
  });
}

std::string remedy_for_transport(const std::string& transport) {
  if (transport == "nccl")
    return "call it again with NCCL_P2P_DISABLE=1: if that mends it, the direct path between the GPUs is at fault (access "
           "control "
           "of PCIe bridges, IOMMU); with NCCL_SHM_DISABLE=1: then /dev/shm is; NCCL_DEBUG=INFO shows the paths";
  if (transport == "gloo") return "allow processes of this machine to reach each other over the loopback interface";
  return "test the machine's memory, and send the report in: it may be a fault of Panpipe";
}

std::string remedy_after(const ChildEnd& end, const std::string& transport) {
  if (end.too_long)
    return "end what else runs on the machine and call it again; where it hangs then too, " + remedy_for_transport(transport);
  if (end.too_much) return "unset what asks libraries for messages (NCCL_DEBUG, TORCH_CPP_LOG_LEVEL); else send the report in";
  if (end.exit_code == static_cast<int>(ExitCode::MachineCannot)) return "give the machine what the message says it lacks";
  return remedy_for_transport(transport);
}

}  // namespace panpipe::cli
