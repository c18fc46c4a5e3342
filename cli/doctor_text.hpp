// What `panpipe doctor` says of a machine: what was found, what each verb can therefore do, and how to get the rest.
#pragma once

#include <string>
#include <vector>

#include "base/text/text_style.hpp"
#include "cli/machine.hpp"

namespace panpipe::cli {

// Something that this machine lacks, and how to get it.
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
