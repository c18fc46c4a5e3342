// What `panpipe run` was asked for. Plain data: the launcher, the executor and their tests share it; no LibTorch here.
#pragma once

#include <string>
#include <vector>

namespace panpipe::exec {

struct RunRequest {
  // What to run.
  std::string scenario;                // file
  std::vector<std::string> overrides;  // --set KEY=VALUE
  std::string plan;                    // --plan FILE; empty = what the scenario asks for
  int steps = 1;                       // measured steps
  int warmup = 0;                      // steps before them that train but are not measured

  // How.
  std::string transport;    // local | gloo | nccl; empty = nccl where every rank has a GPU, else gloo
  std::string device;       // cpu | cuda; empty = cuda where every rank has a GPU, else cpu
  int threads = 0;          // intra-op threads of a rank; 0 = cores / ranks of this host, at least 1
  double deadline_s = 10;   // longest silence of a peer
  bool overcommit = false;  // ranks start also where the host's memory does not seem to hold them

  // What to write.
  std::string output;          // -o DIR: result.json, trace.json, scenario.yaml, plan.yaml, report.txt
  bool json = false;           // result document on standard output
  bool timeline = false;       // with the spans
  std::string dump_gradients;  // safetensors: gradients of the last step
  std::string metrics;         // JSON lines, one per step
  bool progress = true;        // a line per step on standard error

  std::string export_folder;  // DIR that transformers loads the trained model from

  // Where it begins.
  std::string pretrained;  // file or folder of weights, in place of the scenario's workload.weights

  // Checkpoints.
  std::string checkpoint;    // DIR
  int checkpoint_every = 0;  // steps; 0 = only at the end and on Ctrl-C
  std::string resume;        // a checkpoint folder, or "auto": the newest whole one in `checkpoint`
};

}  // namespace panpipe::exec
