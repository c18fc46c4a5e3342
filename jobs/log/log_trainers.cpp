#include "jobs/log/log_trainers.hpp"

namespace panpipe::jobs {

const std::vector<LogTrainer>& log_trainers() {
  static const std::vector<LogTrainer> table = {
      {"megatron-core", "iteration 10/ 100 | ... elapsed time per iteration (ms): 5444.9 |", megatron_log},
      {"nemo", "Training epoch 0, iteration 10/100 | ... global_step: 10 | train_step_timing in s: 2.505", nemo_log},
      {"nanotron", "iteration: 10 / 100 | ... elapsed_time_per_iteration_ms: 11.5K |", nanotron_log},
      {"torchtitan", "step: 10 loss: ... memory: 40.5GiB(42.6%) tps: 7,555", torchtitan_log},
      {"llm-foundry", "[batch=10/100]: and Train throughput/batches_per_sec: 0.10", composer_log},
      {"deepspeed", "global_step=10, RunningAvgSamplesPerSec=7.86, CurrSamplesPerSec=8.01", deepspeed_log},
      {"huggingface", "10/100 [00:31<04:41, 3.12s/it]", huggingface_log},
  };
  return table;
}

}  // namespace panpipe::jobs
