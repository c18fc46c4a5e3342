#include "cli/selftest/measured_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/version.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::cli {
namespace {

// The least that is free on a GPU that programs may see.
std::int64_t free_memory(const Trial& trial) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Gpu& gpu : trial.machine.gpus.devices)
    if (gpu.free > 0) least = std::min(least, gpu.free);
  return least == std::numeric_limits<std::int64_t>::max() ? 0 : least;
}

}  // namespace

std::string gpu_cell(const Trial& trial) {
  if (!trial.on_gpus()) return "CPU";
  const auto& devices = trial.machine.gpus.devices;
  return devices.empty() || devices.front().name.empty() ? "GPU" : validation::gpu_of_driver_name(devices.front().name);
}

std::string precision_for(const std::string& gpu) {
  const DeviceType* device = validation::device_of(gpu);
  return device != nullptr && device->peak_for(Precision::Bf16) > ComputeRate(0) ? "bf16" : "fp32";
}

// Two layers a rank or more. The job uses a small part of a GPU's memory, because others may use it too: per layer 12 hidden^2
// parameters of 18 bytes (weights, master weights, gradients and moments of Adam), and 34 sequence x hidden bytes of activations
// for each microbatch in flight, of which the first rank holds as many as there are ranks (arXiv 2205.05198).
//   hidden 2048, sequence 1024, 8 ranks: 4 x (0.84 GiB + 8 x 0.07 GiB) + the vocabulary's 1.1 GiB and logits, about 8 GiB
//   hidden 1024: about 3 GiB. hidden 256: 0.1 GiB
MeasuredJob job_for(const Trial& trial) {
  MeasuredJob job;
  if (!trial.on_gpus()) return job;
  job.ranks = trial.gpus() == 1 ? 1 : trial.worlds().back();
  job.layers = (trial.request.quick ? 2 : 4) * job.ranks;
  job.microbatches = std::max(8, 2 * job.ranks);
  const double gib = static_cast<double>(free_memory(trial)) / static_cast<double>(std::int64_t{1} << 30);
  if (trial.request.quick || gib < 8) return job;
  job.hidden = gib < 24 ? 1024 : 2048;
  job.heads = job.hidden / 64;
  job.sequence = 1024;
  job.vocabulary = 32768;
  job.precision = precision_for(gpu_cell(trial));
  return job;
}

std::string scenario_of(const MeasuredJob& job) {
  return fmt::format(
      "panpipe: 1\n"
      "cluster: {{devices: {}, memory: 1 TiB, link: {{latency: 60 us, bandwidth: 2 GB/s}}}}  # measured ones take their place\n"
      "workload: {{model: gpt, layers: {}, hidden: {}, heads: {}, vocabulary: {}, sequence: {}}}\n"
      "batch: {{micro: {}, microbatches: {}}}\n"
      "precision: {}\n"
      "schedule: 1f1b\n"
      "optimizer: adam\n",
      job.ranks, job.layers, job.hidden, job.heads, job.vocabulary, job.sequence, job.micro, job.microbatches, job.precision);
}

validation::RunRow row_of(const MeasuredJob& job, const std::string& gpu, double step_s, double peak_bytes,
                          const std::string& note) {
  validation::RunRow row;
  row.id = "selftest";
  row.source = "panpipe-selftest";
  row.where = std::string("panpipe ") + kVersion;
  row.confidence = "measured";
  row.framework = "eager-sdpa";  // LibTorch's operators, one after the other, with its fused attention
  row.gpu = gpu;
  row.gpus = row.gpus_per_node = row.pp = job.ranks;
  row.tp = row.dp = 1;
  row.layers = job.layers;
  row.hidden = job.hidden;
  row.heads = job.heads;
  row.seq = job.sequence;
  row.vocab = job.vocabulary;
  row.micro_batch = job.micro;
  row.global_batch = job.micro * job.microbatches;
  row.schedule = job.ranks > 1 ? "1f1b" : "none";
  row.recompute = "none";
  row.seq_parallel = false;
  row.zero = 0;
  row.precision = job.precision;
  row.step_s = step_s;
  row.step_kind = "step";
  row.peak_kind = "allocated";
  row.peak_gib = peak_bytes / static_cast<double>(std::int64_t{1} << 30);
  row.note = note;
  return row;
}

}  // namespace panpipe::cli
