#include "exec/launch/profile_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/text/quantity_text.hpp"
#include "exec/launch/fits_host.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/request_options.hpp"
#include "exec/launch/run_option_checks.hpp"
#include "exec/launch/visible_gpus.hpp"

namespace panpipe::exec {
namespace {

// A slow unit may compute for long while the others wait.
constexpr double kDeadlineSeconds = 60;

constexpr auto kProfileOptions = [](ProfileRequest& request, const auto& see) {
  see("-o", request.output, "FILE", "write the profile here instead of to standard output");
  see("--ranks", request.ranks, "N", "ranks that compute side by side, as in the run (default 2)");
  see("--threads", request.threads, "N", "threads of a rank within an operator (default: cores / ranks)");
  see("--transport", request.transport, "local|gloo|nccl",
      "how ranks talk: gloo, local (threads of one process), nccl; default: gloo on CPUs, on GPUs nccl where each rank has one, "
      "else local");
  see("--device", request.device, "cpu|cuda", "where operators run (default cpu)");
  see("--repetitions", request.repetitions, "N", "measurements of each unit, at most (default 20)");
  see("--seconds", request.seconds, "S", "about how long the units may take in all (default 20)");
  see("--window", request.window, "SIZE", "memory of the units that are held at once (default: a quarter of the machine's)");
  see("--operators", request.operators, "FILE", "also measure operator by operator, as a table (CSV)");
  see("--only-transfers", request.only_transfers, "", "measure messages and sums only");
  see("--allow-overcommit", request.overcommit, "", "start also where this host's memory does not seem to hold the ranks");
};

}  // namespace

void add_profile_options(CLI::App& app, ProfileRequest& request) {
  read_options(app, request, "scenario file (YAML): its workload, microbatch, precision and optimizer", kProfileOptions);
}

void check_profile_options(const ProfileRequest& request) {
  at_least("--ranks", request.ranks, 1);
  at_least("--threads", request.threads, 0);
  at_least("--repetitions", request.repetitions, 5);
  if (!request.transport.empty()) one_of("--transport", request.transport, {"local", "gloo", "nccl"});
  one_of("--device", request.device, {"cpu", "cuda"});
  if (!std::isfinite(request.seconds) || request.seconds <= 0)
    throw InputError(fmt::format("--seconds must be positive, not {:g}", request.seconds));
  if (request.only_transfers && !request.operators.empty())
    throw InputError("--only-transfers leaves out what --operators asks for");
  if (request.transport == "nccl" && request.device == "cpu")
    throw InputError("--transport nccl moves tensors between GPUs: it goes with --device cuda");
  if (!request.window.empty()) {
    const Parsed<Bytes> window = parse_bytes(request.window);
    if (!window.value) throw InputError("--window: " + window.problem);
    if (*window.value <= Bytes(0)) throw InputError("--window must be positive");
  }
  check_profile_outputs(request);
}

void check_profile_outputs(const ProfileRequest& request) {
  std::vector<std::string> files;
  for (const std::string& file : {request.operators, request.output})
    if (!file.empty()) files.push_back(file);
  check_outputs(files, "choose another file with -o or --operators");
}

std::vector<std::string> to_arguments(const ProfileRequest& request) { return written_options(request, kProfileOptions); }

int launch_profile(ProfileRequest request) {
  check_profile_options(request);
  if (request.transport.empty())
    request.transport = request.device == "cpu" ? "gloo" : visible_gpus() >= request.ranks ? "nccl" : "local";
  std::vector<std::string> command{executor_program(), "profile"};
  if (request.device == "cpu") {
    const Experiment experiment(load_scenario(request.scenario, request.overrides));
    HostUse use;
    use.scenario = request.scenario;
    use.purpose = "profile";
    use.ranks = request.ranks;
    use.threads = request.threads;
    use.one_process = request.transport == "local";
    use.need.assign(request.ranks, profile_memory(experiment, request));
    report_before_start(use, request.overcommit);
  }
  for (std::string& word : to_arguments(request)) command.push_back(std::move(word));
  if (request.transport == "local" || request.ranks == 1) become_program(command);
  return run_ranks(command, request.ranks, kDeadlineSeconds, OnInterrupt::EndNow);
}

}  // namespace panpipe::exec
