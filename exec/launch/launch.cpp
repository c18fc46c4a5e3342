#include "exec/launch/launch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "costmodel/base/error.hpp"
#include "costmodel/experiment/experiment.hpp"
#include "exec/launch/run_options.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;

// panpipe-exec stands beside panpipe.
std::string executor() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path() / "panpipe-exec";
  if (!fs::exists(program, error))
    throw MachineError(
        "this build has no executor: it was made without LibTorch; run make setup, which installs it into .venv, then make "
        "build");
  return program.string();
}

}  // namespace

int visible_gpus() {
  int count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename();
    if (name.rfind("nvidia", 0) == 0 && name.size() > 6 && name.find_first_not_of("0123456789", 6) == std::string::npos) ++count;
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) return count;
  const std::string list = visible;
  if (list.empty() || list[0] == '-') return 0;
  return std::min(count, 1 + static_cast<int>(std::count(list.begin(), list.end(), ',')));
}

namespace {

// Devices and transport that were not asked for: GPUs where every rank has one.
void choose(RunRequest& request, int ranks_here) {
  const bool enough = visible_gpus() >= ranks_here;
  if (request.device.empty())
    request.device = request.transport == "nccl" || (enough && request.transport != "gloo") ? "cuda" : "cpu";
  if (request.transport.empty()) request.transport = request.device == "cuda" && enough ? "nccl" : "gloo";
}

[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  throw MachineError(fmt::format("cannot start {}: {}", command[0], std::strerror(errno)));
}

std::vector<std::string> command_of(const RunRequest& request) {
  std::vector<std::string> command{executor(), "run"};
  for (std::string& word : to_arguments(request)) command.push_back(std::move(word));
  return command;
}

}  // namespace

std::string executor_program() { return executor(); }

void become_program(const std::vector<std::string>& command) { become(command); }

int launch(RunRequest request) {
  check_run_options(request);
  executor();  // before anything that takes long
  if (const auto world = world_of_environment()) {
    if (request.transport == "local")
      throw InputError(fmt::format("--transport local runs all ranks in one process, but {} started {}: leave out one of the two",
                                   world->launcher, world->size));
    choose(request, world->local_size);
    become(command_of(request));
  }
  if (request.transport == "local") {
    if (request.device.empty()) request.device = visible_gpus() > 0 ? "cuda" : "cpu";
    become(command_of(request));
  }
  int ranks = 0;
  {
    const Experiment experiment(load_scenario(request.scenario, request.overrides, request.plan));
    const Plan plan = experiment.plan(request.plan);
    ranks = plan.pipeline * plan.data * plan.tensor;
  }
  choose(request, ranks);
  return run_ranks(command_of(request), ranks, request.deadline_s);
}

}  // namespace panpipe::exec
