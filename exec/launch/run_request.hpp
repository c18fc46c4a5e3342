// The options of `panpipe run` as plain data, shared by the launcher, the executor and their tests; no LibTorch here.
#pragma once

#include <string>
#include <vector>

namespace panpipe::exec {

struct RunRequest {
  // The input.
  std::string scenario;                // file
  std::vector<std::string> overrides;  // --set KEY=VALUE
  std::string plan;                    // --plan FILE; empty = as the scenario requests
  int steps = 1;                       // measured steps
  int warmup = 0;                      // preceding steps that train but are not measured

  // The execution.
  std::string transport;    // local | gloo | nccl; empty = nccl if every rank has a GPU, else gloo
  std::string device;       // cpu | cuda; empty = cuda if every rank has a GPU, else cpu
  int threads = 0;          // intra-op threads per rank; 0 = cores / ranks of this host, at least 1
  double deadline_s = 10;   // longest silence of a peer
  bool overcommit = false;  // start ranks even if the host's memory seems too small

  // The output.
  std::string output;          // -o DIR: result.json, trace.json, scenario.yaml, plan.yaml, report.txt
  bool json = false;           // result document on standard output
  bool timeline = false;       // include the spans
  std::string dump_gradients;  // safetensors: gradients of the last step
  std::string metrics;         // JSON lines, one per step
  bool progress = true;        // a line per step on standard error

  std::string export_folder;  // DIR for the trained model in transformers' format

  // The initial values.
  std::string pretrained;  // file or folder of weights, instead of the scenario's workload.weights

  // Checkpoints.
  std::string checkpoint;    // DIR
  int checkpoint_every = 0;  // steps; 0 = only at the end and on Ctrl-C
  std::string resume;        // a checkpoint folder, or "auto": the newest complete one in `checkpoint`
};

}  // namespace panpipe::exec
