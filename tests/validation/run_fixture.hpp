// A published run, and files and predictions of runs, for the tests of measured runs.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/temporary_folder.hpp"
#include "validation/runs/run_prediction.hpp"

namespace panpipe::validation {

inline std::string file_with(const std::string& text) { return test::scratch().write("runs.csv", text); }

// Korthikanti et al., arXiv 2205.05198, table 5: the 22B model with full recomputation.
inline RunRow korthikanti_22b() {
  RunRow row;
  row.id = "22B";
  row.source = "korth22";
  row.framework = "megatron";
  row.gpu = "A100-80G-SXM";
  row.gpus = 8;
  row.gpus_per_node = 8;
  row.layers = 48;
  row.hidden = 6144;
  row.heads = 64;
  row.seq = 2048;
  row.vocab = 51200;
  row.global_batch = row.micro_batch = 4;
  row.tp = 8;
  row.pp = row.dp = 1;
  row.schedule = "none";
  row.recompute = "full";
  row.precision = "fp16-mixed";
  row.step_s = 1.42;
  return row;
}

inline RunPrediction predicted(const std::string& id, double measured, double prediction, int gpus = 8) {
  RunPrediction run;
  run.row = korthikanti_22b();
  run.row.id = id;
  run.row.gpus = gpus;
  run.row.step_s = measured;
  run.predicted_s = prediction;
  return run;
}

}  // namespace panpipe::validation
