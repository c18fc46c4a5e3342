// Small scenarios that the tests of --method auto search, and what the estimate makes of the answers.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "planner/auto/enumerate.hpp"
#include "planner/candidate.hpp"

namespace panpipe::testing {

// Every configuration with this microbatch.
inline void enumerate_all(planner::Enumeration& enumeration, const planner::Space& space, int micro, bool whole) {
  for (std::vector<Degrees>& shapes : planner::rounds_of(space, micro)) {
    planner::Enumeration::Round round(std::move(shapes));
    enumeration.run_round(round, whole, false, planner::kInfinite);
  }
}

// Two DGX A100, a small GPT whose costs are of every kind; senders wait for their transfers.
inline Scenario two_nodes(const std::string& more = "", const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      "panpipe: 1\n"
      "cluster: {file: clusters/dgx-a100-80g.yaml, nodes: 2}\n"
      "workload: {model: gpt, layers: 16, hidden: 4096, heads: 32, vocabulary: 51200, sequence: 2048}\n"
      "batch: {micro: auto, microbatches: 96}\n"
      "precision: fp16\n" +
          more,
      "two-nodes.yaml", ".", overrides);
}

// Eight consumer cards, bridged in pairs; transfers run during the passes.
inline Scenario eight_cards(const std::string& more = "", const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      "panpipe: 1\n"
      "cluster: clusters/rtx3090x8.yaml\n"
      "workload: {model: gpt, layers: 12, hidden: 1024, heads: 16, vocabulary: 50304, sequence: 1024}\n"
      "batch: {micro: auto, microbatches: 24}\n"
      "precision: fp16\n"
      "framework: eager\n" +
          more,
      "eight-cards.yaml", ".", overrides);
}

// A corner of that space that is small enough to look at whole.
inline Scenario four_cards(const std::string& more = "", const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      "panpipe: 1\n"
      "cluster: {file: clusters/a100-80g-pcie-x4.yaml}\n"
      "workload: {model: gpt, layers: 6, hidden: 1024, heads: 16, vocabulary: 50304, sequence: 1024}\n"
      "batch: {micro: auto, microbatches: 8}\n"
      "precision: bf16\n" +
          more,
      "four-cards.yaml", ".", overrides);
}

// Two nodes of four, a small mixture: eight experts over four ranks.
inline Scenario experts_over_ranks(const std::string& more = "", const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      "panpipe: 1\n"
      "cluster: {file: clusters/h100x8.yaml, devices_per_node: 4, nodes: 2}\n"
      "workload: {config: {model_type: mixtral, hidden_size: 2048, num_hidden_layers: 6, num_attention_heads: 16, "
      "num_key_value_heads: 4, intermediate_size: 4096, num_local_experts: 8, vocab_size: 16384}, sequence: 2048}\n"
      "batch: {micro: auto, microbatches: 16}\n"
      "precision: bf16\n"
      "framework: megatron-core\n"
      "parallel: {tensor: auto, data: auto, expert: 4}\n" +
          more,
      "experts.yaml", ".", overrides);
}

// Four cards, four small experts.
inline Scenario four_experts(const std::string& more = "", const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      "panpipe: 1\n"
      "cluster: {file: clusters/a100-80g-pcie-x4.yaml}\n"
      "workload: {config: {model_type: mixtral, hidden_size: 1024, num_hidden_layers: 4, num_attention_heads: 8, "
      "num_key_value_heads: 4, intermediate_size: 2048, num_local_experts: 4, vocab_size: 8192}, sequence: 1024}\n"
      "batch: {micro: auto, microbatches: 8}\n"
      "precision: bf16\n"
      "framework: megatron-core\n" +
          more,
      "four-experts.yaml", ".", overrides);
}

// Step time and memory of the scenario as `panpipe estimate` gives them.
inline Metrics estimated(const Scenario& scenario) {
  const Experiment experiment(scenario);
  return metrics(estimate(answered(experiment.scenario, experiment.plan(""), experiment.model)));
}

// The searched scenario, made with the candidate's settings behind the overrides `first`, is estimated as the candidate is.
template <class Make>
Metrics expect_again(const planner::Candidate& candidate, const Make& scenario_with, std::vector<std::string> first = {}) {
  for (const auto& [key, value] : candidate.settings) first.push_back(key + "=" + value);
  const Metrics again = estimated(scenario_with(first));
  EXPECT_EQ(*planner::figure_named(candidate.metrics, "step_time_s"), again.step_time_s) << candidate.summary;
  EXPECT_EQ(*planner::figure_named(candidate.metrics, "peak_memory_bytes"), again.peak_memory_bytes) << candidate.summary;
  return again;
}

}  // namespace panpipe::testing
