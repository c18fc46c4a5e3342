// What `panpipe profile` was asked for. Plain data; no LibTorch here.
#pragma once

#include <string>
#include <vector>

namespace panpipe::exec {

struct ProfileRequest {
  std::string scenario;
  std::vector<std::string> overrides;  // --set KEY=VALUE
  std::string output;                  // -o FILE; empty = standard output
  std::string operators;               // --operators FILE: a line per operator; empty = none
  std::string transport;               // local | gloo | nccl: what tables are measured over, and how ranks are started
  std::string device = "cpu";          // cpu | cuda
  int ranks = 2;                       // that compute side by side: they share caches, memory and power
  int threads = 0;                     // intra-op threads of a rank; 0 = cores / ranks, at least 1
  int repetitions = 20;
  double seconds = 20;  // about how long units may take in all: fewer repetitions where they are slow, never below 5
  std::string window;   // largest memory of the units that are held at once; empty = a quarter of the machine's
  bool only_transfers = false;
  bool overcommit = false;  // ranks start also where the host's memory does not seem to hold them
};

}  // namespace panpipe::exec
