// The options of `panpipe profile` as plain data; no LibTorch here.
#pragma once

#include <string>
#include <vector>

namespace panpipe::exec {

struct ProfileRequest {
  std::string scenario;
  std::vector<std::string> overrides;  // --set KEY=VALUE
  std::string output;                  // -o FILE; empty = standard output
  std::string operators;               // --operators FILE: one line per operator; empty = none
  std::string transport;               // local | gloo | nccl: measured by the tables, and decides how ranks are started
  std::string device = "cpu";          // cpu | cuda
  int ranks = 2;                       // compute side by side and share caches, memory and power
  int threads = 0;                     // intra-op threads per rank; 0 = cores / ranks, at least 1
  int repetitions = 20;
  double seconds = 20;  // approximate total time for units: slow units get fewer repetitions, but at least 5
  std::string window;   // largest memory of units held at once; empty = a quarter of the machine's
  bool only_transfers = false;
  bool overcommit = false;  // start ranks even if the host's memory seems too small
};

}  // namespace panpipe::exec
