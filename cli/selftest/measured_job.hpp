// The job that `panpipe selftest` profiles, predicts and runs: a GPT sized for the device.
#pragma once

#include <string>

#include "cli/selftest/trial.hpp"

namespace panpipe::cli {

struct MeasuredJob {
  int layers = 4, hidden = 256, heads = 4, sequence = 128, vocabulary = 2048;
  int micro = 2, microbatches = 8;
  int ranks = 2;  // a pipeline over them
  std::string precision = "fp32";
};

// bf16 for cards whose shipped data sheet has a bf16 rate, else fp32. `gpu` is the name used in rows.
std::string precision_for(const std::string& gpu);
MeasuredJob job_for(const Trial& trial);
std::string scenario_of(const MeasuredJob& job);

// The run as a row of a table of runs (docs/validate.md).
validation::RunRow row_of(const MeasuredJob& job, const std::string& gpu, double step_s, double peak_bytes,
                          const std::string& note);

// The device's name in such a table; "CPU" without GPUs.
std::string gpu_cell(const Trial& trial);

}  // namespace panpipe::cli
