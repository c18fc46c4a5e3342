#include "exec/launch/run_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/input/scalar_text.hpp"
#include "exec/launch/checkpoint_folder.hpp"
#include "exec/launch/request_options.hpp"
#include "exec/launch/run_option_checks.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;

constexpr auto kRunOptions = [](RunRequest& request, const auto& see) {
  see("--plan", request.plan, "FILE", "take partition, placement and schedule from a plan file");
  see("--steps", request.steps, "N", "steps to train and measure (default 1)");
  see("--warmup", request.warmup, "N", "steps before them that train but are not measured");
  see("--transport", request.transport, "local|gloo|nccl", "how ranks talk: local (threads of one process), gloo, nccl");
  see("--device", request.device, "cpu|cuda", "where operators run");
  see("--threads", request.threads, "N", "threads of a rank within an operator (default: cores / ranks)");
  see("-o", request.output, "DIR",
      "write result.json, trace.json, scenario.yaml, plan.yaml, report.txt and schedule.svg into this folder");
  see("--json", request.json, "", "print the result document instead of the table");
  see("--timeline", request.timeline, "", "with --json: include every span");
  see("--dump-gradients", request.dump_gradients, "FILE", "write the last step's gradients (safetensors)");
  see("--metrics", request.metrics, "FILE", "write a line of JSON per step");
  see("--checkpoint", request.checkpoint, "DIR", "write checkpoints into this folder: at the end and on Ctrl-C");
  see("--checkpoint-every", request.checkpoint_every, "N", "and after every N steps");
  see("--resume", request.resume, "DIR|auto", "go on from this checkpoint; auto: the newest whole one of --checkpoint");
  see("--pretrained", request.pretrained, "DIR", "begin with these weights: a safetensors file or a model's folder");
  see("--export", request.export_folder, "DIR", "write the trained model as a folder that transformers loads");
  see("--deadline", request.deadline_s, "S", "seconds without progress after which a rank is lost (default 10)");
  see("--allow-overcommit", request.overcommit, "", "start also where this host's memory does not seem to hold the ranks");
};

// A folder that is still to be made, where one can be made: found out before training, not behind it.
void check_export_folder(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code error;
  if (fs::exists(folder, error))
    throw InputError(fmt::format("--export: {} exists already: give a folder that is still to be made", folder));
  fs::path above = fs::absolute(folder).lexically_normal();
  if (!above.has_filename()) above = above.parent_path();  // "out/"
  while (above.has_parent_path() && above != above.parent_path() && !fs::exists(above, error)) above = above.parent_path();
  if (!fs::is_directory(above, error))
    throw InputError(fmt::format("--export: {} cannot be made: {} is no folder", folder, above.string()));
  if (::access(above.c_str(), W_OK) != 0)
    throw InputError(fmt::format("--export: {} cannot be made: {} may not be written", folder, above.string()));
}

}  // namespace

void add_run_options(CLI::App& app, RunRequest& request) {
  read_options(app, request, "scenario file (YAML)", kRunOptions);
  app.add_flag("--progress,!--no-progress", request.progress, "a line per step on standard error");
}

void check_run_options(const RunRequest& request) {
  at_least("--steps", request.steps, 1);
  at_least("--warmup", request.warmup, 0);
  at_least("--threads", request.threads, 0);
  at_least("--checkpoint-every", request.checkpoint_every, 0);
  if (!request.transport.empty()) one_of("--transport", request.transport, {"local", "gloo", "nccl"});
  if (!request.device.empty()) one_of("--device", request.device, {"cpu", "cuda"});
  if (!std::isfinite(request.deadline_s) || request.deadline_s < 0.1 || request.deadline_s > 86400)
    throw InputError(fmt::format("--deadline is between 0.1 and 86400 seconds, not {:g}", request.deadline_s));
  if (request.transport == "nccl" && request.device == "cpu")
    throw InputError("--transport nccl moves tensors between GPUs: it goes with --device cuda");
  if (request.checkpoint_every > 0 && request.checkpoint.empty()) throw InputError("--checkpoint-every needs --checkpoint DIR");
  if (request.resume == "auto" && request.checkpoint.empty())
    throw InputError("--resume auto looks for the newest checkpoint in the folder of --checkpoint, which is not given");
  std::error_code error;
  if (!request.resume.empty() && request.resume != "auto" && !fs::is_directory(request.resume, error))
    throw InputError(fmt::format("--resume: there is no folder {}", request.resume));
  for (const auto& [option, folder] : {std::pair("-o", request.output), std::pair("--checkpoint", request.checkpoint)})
    if (fs::exists(folder, error) && !fs::is_directory(folder, error))
      throw InputError(fmt::format("{}: {} is a file, not a folder", option, folder));
  if (!request.pretrained.empty() && !fs::exists(request.pretrained, error))
    throw InputError(fmt::format("--pretrained: there is no file or folder {}", request.pretrained));
  check_export_folder(request.export_folder);
  // A run from step 1 would replace them one by one.
  if (const auto earlier = request.resume.empty() ? checkpoints_in(request.checkpoint) : std::vector<fs::path>{};
      !earlier.empty())
    throw InputError(fmt::format(
        "--checkpoint: {} holds checkpoints of an earlier run, the newest {}: go on from it with --resume auto, or give "
        "another folder",
        request.checkpoint, earlier.front().filename().string()));
  check_run_outputs(request);
}

// Training for hours and then having nowhere to write is worse than an error now.
void check_run_outputs(const RunRequest& request) {
  for (const auto& [option, file] :
       {std::pair("--dump-gradients", request.dump_gradients), std::pair("--metrics", request.metrics)})
    if (!file.empty()) check_outputs({file}, fmt::format("choose another file with {}", option));
}

std::vector<std::string> all_overrides(const RunRequest& request) {
  std::vector<std::string> overrides = request.overrides;
  if (!request.pretrained.empty())
    overrides.push_back("workload.weights=" + quoted_scalar(fs::absolute(request.pretrained).string()));
  return overrides;
}

std::vector<std::string> to_arguments(const RunRequest& request) {
  std::vector<std::string> words = written_options(request, kRunOptions);
  if (!request.progress) words.emplace_back("--no-progress");
  return words;
}

}  // namespace panpipe::exec
