// Hints of offload: named where they make room, with the need that the setting gives.
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/prediction/experiment.hpp"
#include "costmodel/prediction/memory_hints.hpp"

namespace panpipe {
namespace {

Scenario four_cards(const std::vector<std::string>& overrides) {
  return parse_scenario(
      "panpipe: 1\n"
      "cluster: {file: clusters/rtx4090x8.yaml, devices_per_node: 4, wiring: {sockets: {groups: [[0, 1], [2, 3]]}}}\n"
      "workload: {model: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 32, ffn: 11008, vocabulary: 32000, sequence: "
      "1024}\n"
      "batch: {micro: 1, microbatches: 1}\nprecision: bf16\nrecompute: full\n"
      "parallel: {pipeline: 1, data: 4, zero: 3}\nframework: eager\n",
      "four.yaml", "", overrides);
}

const MemoryHint* hint_named(const std::vector<MemoryHint>& hints, std::string_view setting) {
  const auto found = std::find_if(hints.begin(), hints.end(), [&](const MemoryHint& hint) { return hint.setting == setting; });
  return found == hints.end() ? nullptr : &*found;
}

std::vector<MemoryHint> hints_of(const Scenario& scenario) {
  const Experiment experiment(scenario);
  return memory_hints(experiment.scenario, experiment.plan(""));
}

// 6.7e9 parameters on four cards of 24 GiB: the moments and masters, 12 bytes each, are 20.2 GB a card.
TEST(MemoryHints, OffloadMakesRoom) {
  const std::vector<MemoryHint> hints = hints_of(four_cards({}));
  const MemoryHint* optimizer = hint_named(hints, "offload.optimizer=cpu");
  ASSERT_NE(optimizer, nullptr);
  EXPECT_EQ(optimizer, &hints.back());  // of the settings that make room, it costs the most time
  EXPECT_GE(optimizer->saved.base(), 12 * 6.7e9 / 4 * 0.9);
  // With it the step fits, and no hint is left.
  EXPECT_TRUE(hints_of(four_cards({"offload.optimizer=cpu"})).empty());
}

// A step whose optimizer's states are gone may lack room for its parameters; without ZeRO 3 they stay.
TEST(MemoryHints, ParametersLeaveUnderZero3) {
  const std::vector<std::string> tight = {"offload.optimizer=cpu", "usable=45 %"};
  EXPECT_NE(hint_named(hints_of(four_cards(tight)), "offload.parameters=cpu"), nullptr);
  std::vector<std::string> two = tight;
  two.emplace_back("parallel.zero=2");
  EXPECT_EQ(hint_named(hints_of(four_cards(two)), "offload.parameters=cpu"), nullptr);
}

}  // namespace
}  // namespace panpipe
