#include "exec/launch/profile_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/text/quantity_text.hpp"
#include "exec/launch/fits_host.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/run_option_checks.hpp"
#include "exec/launch/visible_gpus.hpp"

namespace panpipe::exec {
namespace {

// A slow unit may compute for long while the others wait.
constexpr double kDeadlineSeconds = 60;

}  // namespace

void add_profile_options(CLI::App& app, ProfileRequest& request) {
  app.add_option("SCENARIO", request.scenario, "scenario file (YAML): its workload, microbatch, precision and optimizer")
      ->required();
  app.add_option("--set", request.overrides, "override a key: --set batch.micro=4 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("-o", request.output, "write the profile here instead of to standard output")->type_name("FILE");
  app.add_option("--ranks", request.ranks, "ranks that compute side by side, as in the run (default 2)")->type_name("N");
  app.add_option("--threads", request.threads, "threads of a rank within an operator (default: cores / ranks)")->type_name("N");
  app.add_option("--transport", request.transport,
                 "how ranks talk: gloo, local (threads of one process), nccl; default: gloo on CPUs, on GPUs nccl where each "
                 "rank has one, else local")
      ->type_name("local|gloo|nccl");
  app.add_option("--device", request.device, "where operators run (default cpu)")->type_name("cpu|cuda");
  app.add_option("--repetitions", request.repetitions, "measurements of each unit, at most (default 20)")->type_name("N");
  app.add_option("--seconds", request.seconds, "about how long the units may take in all (default 20)")->type_name("S");
  app.add_option("--window", request.window, "memory of the units that are held at once (default: a quarter of the machine's)")
      ->type_name("SIZE");
  app.add_option("--operators", request.operators, "also measure operator by operator, as a table (CSV)")->type_name("FILE");
  app.add_flag("--only-transfers", request.only_transfers, "measure messages and sums only");
  app.add_flag("--allow-overcommit", request.overcommit, "start also where this host's memory does not seem to hold the ranks");
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

std::vector<std::string> to_arguments(const ProfileRequest& request) {
  std::vector<std::string> words{request.scenario};
  for (const std::string& override_text : request.overrides) words.insert(words.end(), {"--set", override_text});
  if (!request.output.empty()) words.insert(words.end(), {"-o", request.output});
  words.insert(words.end(), {"--ranks", std::to_string(request.ranks), "--threads", std::to_string(request.threads), "--device",
                             request.device, "--repetitions", std::to_string(request.repetitions), "--seconds",
                             fmt::format("{}", request.seconds)});
  if (!request.transport.empty()) words.insert(words.end(), {"--transport", request.transport});
  if (!request.operators.empty()) words.insert(words.end(), {"--operators", request.operators});
  if (!request.window.empty()) words.insert(words.end(), {"--window", request.window});
  if (request.only_transfers) words.emplace_back("--only-transfers");
  if (request.overcommit) words.emplace_back("--allow-overcommit");
  return words;
}

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
