// The report of `panpipe doctor` about a machine: the parts found, the verbs they enable, and how to get missing ones.
#pragma once

#include <string>
#include <vector>

#include "base/text/text_style.hpp"
#include "cli/machine.hpp"

namespace panpipe::cli {

// A part that this machine lacks, and how to get it.
struct Lack {
  std::string what;  // "LibTorch", "NCCL"
  std::string found, rest;
};
std::vector<Lack> lacks_of(const Machine& machine);

// "2 x NVIDIA H100 (80 GiB, 79 GiB free); driver 550.54.15 for CUDA up to 12.4"
std::string gpus_text(const Gpus& gpus);

std::string doctor_text(const Machine& machine, const TextStyle& style);
std::string doctor_json(const Machine& machine);  // schema panpipe-doctor/1

}  // namespace panpipe::cli
