// Shared state while a Megatron-LM job is read. Internal to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/degrees/degrees.hpp"
#include "costmodel/profile/recipe.hpp"
#include "jobs/job.hpp"
#include "jobs/megatron/import.hpp"
#include "jobs/megatron/launch.hpp"
#include "jobs/shell/arguments.hpp"

namespace panpipe::jobs {

struct MegatronJob {
  Arguments& arguments;
  const JobOptions& options;
  MegatronLaunches script = {};  // where the arguments are from
  ImportedJob job = {};
  Degrees degrees = {};
  int layers = 0;
  int further = 0;                         // layers behind them, which predict further tokens
  std::optional<int> deepspeed_zero = {};  // of its configuration
  std::string deepspeed_precision = {};
  std::string dispatcher = {};                               // of tokens to experts; empty: there are none
  const Recipe* recipe = nullptr;                            // of products in 8 or 4 bits
  int expert_groups = 1;                                     // to some of which a token's experts are limited
  bool grouped_products = false, fused_permutation = false;  // of experts

  // Throws InputError if the argument is missing; `help` names what else states it.
  int needed(const char* option, int at_most, const std::string& help = "");
};

// Degrees, machine, and what is divided over which ranks.
void read_megatron_parallel(MegatronJob& megatron);
// The model as keys of config.json: a class of transformers with the same layers.
void read_megatron_model(MegatronJob& megatron);
// Schedule, virtual stages, and the layers of each stage. Call it after reading the model.
void read_megatron_stages(MegatronJob& megatron);
void read_megatron_recompute(MegatronJob& megatron);
// Trainer and framework. Call it last.
void read_megatron_framework(MegatronJob& megatron);
// ZeRO stage and precision of --deepspeed_config. Call it first.
void read_deepspeed_config(MegatronJob& megatron);

}  // namespace panpipe::jobs
