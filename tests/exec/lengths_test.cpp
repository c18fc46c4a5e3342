// Microbatches of unequal length: any plan computes what one process computes, which is what the samples make one by one.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

std::string scenario_of(const std::string& model, int pipeline, int data, const std::string& batch, const std::string& extra) {
  const std::string dimensions = model == "llama" ? ", kv_heads: 2, ffn: 32" : "";
  return scenario_on({pipeline, data},
                     fmt::format("model: {}, layers: 4, hidden: 16, heads: 2, vocabulary: 48{}", model, dimensions), batch,
                     extra);
}

const char* const kEight = "{micro: 2, microbatches: 8, lengths: [16, 4, 8, [6, 2, 4], 16, 12, 4, 8]}";

class Families : public testing::TestWithParam<std::pair<const char*, const char*>> {};

// Shapes change between neighbouring microbatches, in every direction and within groups of passes.
TEST_P(Families, EqualOneProcess) {
  const auto [name, options] = GetParam();
  for (const char* model : {"llama", "gpt"}) {
    SCOPED_TRACE(model);
    const Trained one = train(scenario_of(model, 1, 1, kEight, "schedule: gpipe"), 2);
    const double relative =
        std::string(model) == "gpt" ? 1e-4 : 2e-5;  // a key's bias has no gradient but rounding, which Adam scales up
    expect_equal(train(scenario_of(model, 2, 1, kEight, fmt::format("schedule: {{name: {}{}}}", name, options)), 2), one,
                 relative);
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, Families,
                         testing::Values(std::pair("1f1b", ""), std::pair("zb-h1", ""), std::pair("interleaved-1f1b", ""),
                                         std::pair("zb-v", ""), std::pair("dualpipe", ""), std::pair("1f1b", ", recompute: 1")));

TEST(Lengths, ReplicasRecomputeAndDividedStateEqualOneProcess) {
  const Trained one = train(scenario_of("llama", 1, 1, kEight, "schedule: gpipe"), 2);
  const std::string shared = "{micro: 2, microbatches: 4, lengths: [16, 8, 16, 4, 4, [6, 2, 4], 12, 8]}";
  // Sample k of the step belongs to replica k mod 2: the list above is that of one process, dealt out.
  for (const char* extra : {"", "recompute: full", "recompute: selective"}) {
    SCOPED_TRACE(extra);
    expect_equal(train(scenario_of("llama", 2, 2, shared, extra), 2), one);
  }
  for (const int zero : {1, 2, 3}) {
    SCOPED_TRACE(zero);
    std::string divided = scenario_of("llama", 1, 2, shared, "schedule: gpipe");
    divided.replace(divided.find("data: 2"), 7, fmt::format("data: 2, zero: {}", zero));
    expect_equal(train(divided, 2), one);
  }
}

TEST(Lengths, TensorParallelRanksEqualOneProcess) {
  const Trained one = train(scenario_of("llama", 1, 1, kEight, "schedule: gpipe"), 2);
  for (const char* sequence : {"false", "true"}) {
    SCOPED_TRACE(sequence);
    std::string shared = scenario_of("llama", 2, 2, kEight, "schedule: zb-h1");  // of four devices
    shared.replace(shared.find("data: 2"), 7, fmt::format("tensor: 2, sequence_parallel: {}", sequence));
    expect_equal(train(shared, 2), one, 1e-4);  // sums over ranks have another order
  }
}

// The search needs rates, which a cluster of one's own has not.
TEST(Lengths, ASearchedOrderTrainsTheSameSamples) {
  const auto with_rates = [](std::string scenario) {
    const std::size_t begin = scenario.find("cluster: "), end = scenario.find('\n', begin);
    return scenario.replace(begin, end - begin, "cluster: rtx3090ti-x2");
  };
  const std::string lengths = "{micro: 1, microbatches: 6, lengths: [16, 16, 4, 16, 4, 4]";
  const Trained one = train(scenario_of("llama", 1, 1, lengths + "}", "schedule: gpipe"), 2);
  expect_equal(train(with_rates(scenario_of("llama", 2, 1, lengths + ", order: searched}", "")), 2), one);
}

// A loss and gradients of samples [first, first + tokens) of a row of a file, trained as whole sequences.
Trained alone(const at::Tensor& ids, const at::Tensor& labels, std::int64_t row, std::int64_t first, std::int64_t tokens) {
  const Folder folder;
  const auto part = [&](const at::Tensor& of) { return of.narrow(0, row, 1).narrow(1, first, tokens).contiguous(); };
  write_safetensors(folder.file("d.safetensors"), {{"input_ids", part(ids)}, {"labels", part(labels)}});
  std::string scenario = scenario_of("llama", 1, 1, "{micro: 1, microbatches: 1}",
                                     fmt::format("schedule: gpipe\ndata: {{tensors: {}}}", folder.file("d.safetensors")));
  scenario.replace(scenario.find("vocabulary"), 10, fmt::format("sequence: {}, vocabulary", tokens));
  return train(scenario, 1);
}

// The step's loss is the mean over all of its tokens, and samples of one sequence do not see each other: rotary positions are
// relative, so that a sample computes the same behind others.
TEST(Lengths, AreTheMeanOverTheTokensOfTheSamplesOneByOne) {
  const Folder folder;
  const at::Tensor counted = at::arange(3 * 16, at::kLong).reshape({3, 16});
  const at::Tensor ids = (counted * counted * 7 + counted).remainder(48), labels = (counted * 11 + 5).remainder(48);
  write_safetensors(folder.file("d.safetensors"), {{"input_ids", ids}, {"labels", labels}});
  const Trained all = train(scenario_of("llama", 2, 1, "{micro: 1, microbatches: 3, lengths: [16, [3, 9], 5]}",
                                        fmt::format("data: {{tensors: {}}}", folder.file("d.safetensors"))),
                            1);
  struct Sample {
    std::int64_t row, first, tokens;
  };
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [row, first, tokens] : {Sample{0, 0, 16}, {1, 0, 3}, {1, 3, 9}, {2, 0, 5}}) {
    const Trained one = alone(ids, labels, row, first, tokens);
    const double share = static_cast<double>(tokens) / (16 + 12 + 5);
    loss += share * one.losses.front();
    for (const auto& [name, value] : one.gradients) {
      at::Tensor& sum = gradients[name];
      sum = sum.defined() ? sum.add(value, share) : value.mul(share);
    }
  }
  EXPECT_NEAR(all.losses.front(), loss, 1e-5 * loss);
  expect_close(all.gradients, gradients, 2e-5);
}

TEST(Lengths, WhatIsNotRunIsRefused) {
  const Folder folder;
  std::string context = scenario_of("llama", 1, 2, kEight, "schedule: gpipe");
  context.replace(context.find("data: 2"), 7, "context: 2");
  EXPECT_NE(error_of_step(folder, context).find("batch.lengths and context parallelism together"), std::string::npos);
}

}  // namespace
}  // namespace panpipe::exec
