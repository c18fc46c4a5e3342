#include "cli/import_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "app/memory_snapshot.hpp"
#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "jobs/memory/memory_compare.hpp"

namespace panpipe::cli {
namespace {

struct MemoryOptions : BesideOptions {
  std::string file;
  std::optional<int> gpu;
  bool json = false;
};

// Of the device that the rank is; without one, of the fullest.
jobs::PredictedMemory predict_memory(const MemoryOptions& options) {
  const Experiment experiment(options.load());
  const Prediction prediction = predict(experiment, experiment.plan(options.plan));
  const auto& devices = prediction.timeline.devices;
  const int fullest = app::fullest_rank(prediction.metrics);
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const DeviceTimeline& device) {
    return options.rank ? device.device == *options.rank : device.rank == fullest;
  });
  if (found == devices.end())
    throw option_fault("rank", fmt::format("there is no device {}; the plan has {}", options.rank.value_or(0), devices.size()),
                       "", code::kOutOfRange);
  // A device that is like another one has its parts.
  const auto first =
      std::find_if(devices.begin(), devices.end(), [&](const DeviceTimeline& device) { return device.device == found->same_as; });
  const DeviceTimeline& of = first == devices.end() ? *found : *first;
  return {found->device, static_cast<double>(of.allocated.base()), static_cast<double>(of.reserved.base()), of.peak_parts};
}

int import_memory(const MemoryOptions& options) {
  const bool beside = options.wanted();
  const jobs::MeasuredMemory measured = jobs::read_measured_memory(options.file, options.gpu);
  std::optional<jobs::PredictedMemory> predicted;
  if (beside) predicted = predict_memory(options);
  const jobs::PredictedMemory* of = predicted ? &*predicted : nullptr;
  options.json ? print(jobs::memory_json(measured, of) + "\n") : show(jobs::memory_table(measured, of));
  return 0;
}

}  // namespace

void add_memory_import(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<MemoryOptions>();
  CLI::App* memory =
      sub.add_subcommand("memory", "sort the memory that PyTorch's allocator measured by part, beside a prediction");
  memory
      ->add_option("FILE", options->file,
                   "snapshot of torch.cuda.memory._dump_snapshot, or text with torch.cuda.memory_summary() or the message of an "
                   "out-of-memory error; - for standard input")
      ->required();
  add_number(*memory, "--gpu", options->gpu, "number of the GPU in the file (default: the one with most memory)", 0, 1 << 16);
  add_beside_options(*memory, *options, "rank that was measured (default: that of the fullest device)");
  memory->add_flag("--json", options->json, "print a JSON document instead of the table");
  memory->callback([options, &run] { run = [options] { return import_memory(*options); }; });
}

}  // namespace panpipe::cli
