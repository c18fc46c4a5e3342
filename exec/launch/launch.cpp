#include "exec/launch/launch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "base/files/installation.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "exec/launch/fits_host.hpp"
#include "exec/launch/libtorch.hpp"
#include "exec/launch/run_options.hpp"
#include "exec/launch/visible_gpus.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;

// Devices and transport that were not asked for: GPUs where every rank has one.
void choose(RunRequest& request, int ranks_here, const std::optional<World>& world) {
  const bool enough = gpu_for_each_rank(ranks_here, world);
  if (request.device.empty())
    request.device = request.transport == "nccl" || (enough && request.transport != "gloo") ? "cuda" : "cpu";
  if (request.transport.empty()) request.transport = request.device == "cuda" && enough ? "nccl" : "gloo";
}

// Once per host, before ranks that share its memory start.
void report_shared_memory(const RunRequest& request, int ranks_here) {
  if (request.transport != "nccl" || ranks_here < 2) return;
  if (const std::string text = small_shared_memory(); !text.empty()) std::fputs(("panpipe: " + text + "\n").c_str(), stderr);
}

// Ranks [first, first + count) of a run and the memory that they need of this host.
HostUse use_of(const RunRequest& request, const Experiment& experiment, const Plan& plan, int first, int count,
               const RunRequest& asked) {
  HostUse use;
  use.scenario = request.scenario;
  use.purpose = "run";
  use.ranks = count;
  use.threads = request.threads;
  use.one_process = request.transport == "local";
  const auto& types = experiment.scenario.cluster.types;
  const bool gpus = std::any_of(types.begin(), types.end(), [](const DeviceType& type) { return type.kind == "gpu"; });
  use.for_gpus = asked.device != "cpu" && (gpus || visible_gpus() > 0);
  use.gloo_asked = asked.transport == "gloo";
  const std::vector<std::int64_t> all = run_memory(experiment, plan);
  for (int rank = first; rank < std::min(first + count, static_cast<int>(all.size())); ++rank) use.need.push_back(all[rank]);
  return use;
}

// For a world that another launcher started: the first rank of each host checks its host, and only rank 0 reports what fits.
// Faults of the scenario are left to the ranks, which compare them and report them once. False where this process ends.
bool fits_here(const RunRequest& request, const World& world, const RunRequest& asked) {
  try {
    const Experiment experiment(load_scenario(request.scenario, all_overrides(request), request.plan));
    const Plan plan = experiment.plan(request.plan);
    if (plan.device_count() != world.size) return true;
    const HostUse use = use_of(request, experiment, plan, std::max(0, world.rank - world.local_rank), world.local_size, asked);
    if (world.rank == 0)
      report_before_start(use, request.overcommit);
    else
      check_host(use, request.overcommit);
  } catch (const InputError&) {
  } catch (const NoAnswer&) {
  } catch (const MachineError&) {
    if (world.local_rank == 0) throw;
    return false;
  }
  return true;
}

std::vector<std::string> command_of(const RunRequest& request) {
  std::vector<std::string> command{executor_program(), "run"};
  for (std::string& word : to_arguments(request)) command.push_back(std::move(word));
  return command;
}

}  // namespace

std::string executor_program() {
  const fs::path program = find_part("panpipe-exec");
  if (program.empty())
    throw MachineError(fmt::format(
        "panpipe-exec is not in {}: either the program was copied without the files that lie beside it, or this build was made "
        "without LibTorch; then run make setup, which installs it into .venv, and make build",
        program_folder().string()));
  use_libtorch();
  return program.string();
}

void become_program(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  throw MachineError(fmt::format("cannot start {}: {}", command[0], std::strerror(errno)));
}

int launch(RunRequest request) {
  check_run_options(request);
  executor_program();  // before anything that takes long
  const RunRequest asked = request;
  if (const auto world = world_of_environment()) {
    if (request.transport == "local")
      throw InputError(fmt::format("--transport local runs all ranks in one process, but {} started {}: leave out one of the two",
                                   world->launcher, world->size));
    choose(request, world->local_size, world);
    if (request.device == "cpu" && !fits_here(request, *world, asked)) return static_cast<int>(ExitCode::MachineCannot);
    if (world->local_rank == 0) report_shared_memory(request, world->local_size);
    become_program(command_of(request));
  }
  if (request.transport == "local" && request.device.empty()) request.device = visible_gpus() > 0 ? "cuda" : "cpu";
  if (request.transport == "local" && request.device == "cuda") become_program(command_of(request));
  int ranks = 0;
  {
    const Experiment experiment(load_scenario(request.scenario, all_overrides(request), request.plan));
    const Plan plan = experiment.plan(request.plan);
    ranks = plan.device_count();
    choose(request, ranks, std::nullopt);
    if (request.device == "cpu") report_before_start(use_of(request, experiment, plan, 0, ranks, asked), request.overcommit);
  }
  report_shared_memory(request, ranks);
  if (request.transport == "local") become_program(command_of(request));
  return run_ranks(command_of(request), ranks, request.deadline_s);
}

}  // namespace panpipe::exec
