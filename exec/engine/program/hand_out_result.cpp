#include "exec/engine/program/hand_out_result.hpp"

#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <cstdio>

#include "base/error.hpp"
#include "base/files/standard_output.hpp"
#include "base/text/terminal.hpp"
#include "exec/engine/device.hpp"
#include "present/result/describe_plan.hpp"
#include "present/result/result_files.hpp"

namespace panpipe::exec {
namespace {

// That the ranks of this process compute on; 0 on CPUs, and where every rank is a process with a GPU.
int gpu_count_of(const PreparedRun& run) {
  return run.request.device == "cuda" && run.request.transport == "local" ? gpu_count() : 0;
}

}  // namespace

void present(const PreparedRun& run, const Timeline& timeline, const FilesRead& files, Clock::duration wall) {
  const present::ResultContext context =
      present::result_context(run.experiment, run.request.scenario, present::hashes_of(files), {{"libtorch", TORCH_VERSION}},
                              std::chrono::duration<double>(wall).count());
  const Metrics figures = metrics(timeline);
  const present::ResultPlan described = present::describe_plan(run.experiment, run.plan, timeline);
  if (run.request.json)
    print(to_result_json(timeline, figures, context, described, run.request.timeline));
  else
    print(present::result_text(run.experiment, timeline, figures, described, style_of_output()));
  if (const int gpus = gpu_count_of(run); gpus > 0 && gpus < run.world_size())
    std::fputs(fmt::format("panpipe: {} ranks share {}: a rank's memory is what all ranks of its GPU take together\n",
                           run.world_size(), gpus == 1 ? std::string("a GPU") : fmt::format("{} GPUs", gpus))
                   .c_str(),
               stderr);
  if (run.request.output.empty()) return;
  std::fputs(write_results(run.experiment, run.plan, timeline, figures, context, "", run.request.output).c_str(), stderr);
}

}  // namespace panpipe::exec
