// Scenarios that are exported as jobs of other trainers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jobs/trainer_jobs.hpp"
#include "tests/fault.hpp"

namespace panpipe::jobs {

inline const std::string kCluster = "panpipe: 1\ncluster: {file: clusters/h100x8.yaml, nodes: 1}\n";
inline const std::string kGpt =
    kCluster + "workload: {model: gpt, layers: 8, hidden: 64, heads: 4, vocabulary: 1024, sequence: 32}\nprecision: bf16\n";
inline const std::string kLlama =
    kCluster +
    "workload: {config: {model_type: llama, num_hidden_layers: 8, hidden_size: 64, num_attention_heads: 4, num_key_value_heads: "
    "2, "
    "intermediate_size: 128, vocab_size: 1024, max_position_embeddings: 64}, sequence: 32}\nprecision: bf16\n";

inline Scenario scenario(const std::string& text) { return parse_scenario(text, "job.yaml", "."); }

inline ExportedJob exported(const std::string& trainer, const Experiment& experiment, const Plan& plan,
                            const std::string& file = "") {
  return export_job(trainer, {experiment, plan, "job.yaml", "", file});
}
inline ExportedJob exported(const std::string& trainer, const std::string& text, const std::string& file = "") {
  const Experiment experiment(scenario(text));
  return exported(trainer, experiment, experiment.plan(""), file);
}

inline std::string fault(const std::string& trainer, const std::string& text) {
  return test::fault_of([&] { exported(trainer, text); });
}

inline std::vector<std::pair<int, int>> units_of(const Plan& plan) {
  std::vector<std::pair<int, int>> units;
  for (const StagePlan& stage : plan.stages) units.emplace_back(stage.first_unit, stage.end_unit);
  return units;
}

inline const std::string kPlain = "batch: {micro: 1, microbatches: 4}\nschedule: 1f1b\noptimizer: adamw\n";
inline const std::string kExperts =
    kCluster +
    "workload: {config: {model_type: qwen3_moe, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4, "
    "num_key_value_heads: 2, head_dim: 16, intermediate_size: 128, moe_intermediate_size: 32, num_experts: 8, "
    "num_experts_per_tok: 2, norm_topk_prob: true, vocab_size: 1024, max_position_embeddings: 64}, sequence: 32}\n"
    "precision: bf16\n";

}  // namespace panpipe::jobs
