#include "exec/engine/profile/execute_profile.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/files/files_write.hpp"
#include "base/files/standard_output.hpp"
#include "base/version.hpp"
#include "exec/engine/device.hpp"
#include "exec/engine/profile/profile_rank.hpp"
#include "exec/engine/ranks_here.hpp"
#include "exec/engine/run/stop.hpp"
#include "exec/launch/host.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/profile_options.hpp"
#include "present/result/result_files.hpp"

namespace panpipe::exec {
namespace {

std::atomic<bool> writing{false};
static_assert(std::atomic<bool>::is_always_lock_free, "read in a signal handler");

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return "unknown";
}

// As the driver names the first one: "NVIDIA A100-SXM4-80GB".
std::string gpu() {
  std::error_code error;
  for (const auto& card : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    std::ifstream info(card.path() / "information");
    for (std::string line; std::getline(info, line);)
      if (const auto value = line.find_first_not_of(": \t", 6); line.rfind("Model:", 0) == 0 && value != std::string::npos)
        return line.substr(value);
  }
  return "unknown";
}

void add_provenance(Profile& profile, const PreparedProfile& job, const FilesRead& files, const Transport& transport) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const Scenario& scenario = job.experiment.scenario;
  auto& measured = profile.measured;
  measured["host"] = host.data();
  measured["processor"] = processor();
  measured["cores"] = std::to_string(host_cores());
  measured["date"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  measured["device"] = job.request.device;
  if (job.request.device == "cuda") {
    measured["gpu"] = gpu();
    measured["gpus"] = std::to_string(gpu_count());
  }
  measured["tensor"] = std::to_string(scenario.degrees.tensor);
  measured["ranks"] = std::to_string(transport.size());
  measured["threads"] = std::to_string(threads_of_rank(job.request.threads, transport.size()));
  measured["transport"] = transport.name();
  measured["panpipe"] = kVersion;
  measured["libtorch"] = TORCH_VERSION;
  measured["scenario"] = job.request.scenario;
  measured["workload"] = job.experiment.workload.name;
  measured["micro"] = std::to_string(scenario.degrees.micro);
  measured["precision"] = std::string(name_of(scenario.precision));
  for (const auto& [path, hash] : present::hashes_of(files))
    if (path == job.request.scenario) measured["scenario_sha256"] = hash;
}

void give(const PreparedProfile& job, const Profile& profile, const std::vector<MeasuredOperator>& operators) {
  writing = true;
  const ProfileRequest& request = job.request;
  if (!request.operators.empty())
    write_file(request.operators, operators_csv(job.graph(), operators), "choose another file with --operators");
  const std::string text = to_yaml(profile);
  if (request.output.empty()) {
    print(text);
    return;
  }
  write_file(request.output, text, "choose another file with -o");
  std::fputs(fmt::format("written to {}: {} units, {} transfer tables; use it with `profile: {}` in the scenario\n",
                         request.output, profile.units.size(), profile.transfers.size(), request.output)
                 .c_str(),
             stderr);
}

}  // namespace

void interrupt_profile() noexcept {
  if (writing && !stop_requested()) return request_stop();
  // For several ranks the launcher reports it. Nothing can be done where standard error is closed.
  if (!writing && !std::getenv(kLaunchedVariable) && ::write(STDERR_FILENO, kNoProfile, std::strlen(kNoProfile)) < 0) _exit(130);
  _exit(130);
}

int execute_profile(const ProfileRequest& request, const std::optional<World>& world) {
  if (request.device == "cuda") require_gpus();
  const FilesRead files;
  const PreparedProfile job(request);
  check_profile_outputs(request);
  run_ranks_here(request.transport, request.transport == "local" ? std::nullopt : world, request.ranks, std::chrono::seconds(60),
                 "the end of the profile", [&](Transport& transport) {
                   set_threads(threads_of_rank(request.threads, transport.local_size()));
                   std::vector<MeasuredOperator> operators;
                   Profile profile = profile_rank(job, transport, &operators);
                   if (transport.rank() != 0) return;
                   add_provenance(profile, job, files, transport);
                   give(job, profile, operators);
                 });
  return 0;
}

}  // namespace panpipe::exec
