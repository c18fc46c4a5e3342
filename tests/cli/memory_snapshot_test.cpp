// `panpipe estimate --memory-snapshot` and `panpipe import memory`: what one writes the other reads, with the same figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";

TEST(MemorySnapshot, WhatIsWrittenIsRead) {
  const std::string file = temporary_folder() + "/step.pickle";
  const Outcome run = panpipe("estimate " + kGpt2 + " --json --memory-snapshot " + file);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("open it at pytorch.org/memory_viz"));
  const json metrics = json::parse(run.out)["metrics"];
  const json measured = json::parse(answer_of("import memory " + file + " --scenario " + kGpt2 + " --json"));
  EXPECT_EQ(measured["parts_of"], "peak");
  for (const json& part : measured["parts"]) {
    if (part["part"] == "allocated") {
      const auto allocated = metrics["allocated_memory_bytes"].get<double>();
      EXPECT_NEAR(part["predicted_bytes"].get<double>(), allocated, 1);
      EXPECT_NEAR(part["measured_bytes"].get<double>(), allocated, 1e-6 * allocated);
    }
    if (part["part"] == "reserved") {
      const auto reserved = metrics["reserved_memory_bytes"].get<double>();
      EXPECT_NEAR(part["measured_bytes"].get<double>(), reserved, 1e-6 * reserved);
    }
    EXPECT_NE(part["part"], "unknown");
  }
}

TEST(MemorySnapshot, RanksAndRefusals) {
  const std::string file = temporary_folder() + "/step.pickle", call = "estimate " + kGpt2 + " --memory-snapshot " + file;
  EXPECT_THAT(panpipe(call + " --snapshot-rank 2").err, HasSubstr("the allocator of rank 2 over two steps"));
  EXPECT_THAT(refusal_of(call + " --snapshot-rank 8"),
              HasSubstr("--snapshot-rank: error: there is no pipeline rank 8; the plan has 8"));
  EXPECT_THAT(refusal_of(call + " --set framework=megatron"), HasSubstr("--set framework.allocator=caching"));
}

TEST(ImportMemory, TextAndRefusals) {
  const std::string file = temporary_folder() + "/log.txt";
  write_file(
      file,
      "GPU 0 has a total capacity of 79.15 GiB of which 1.20 GiB is free. Of the allocated memory 70.00 GiB is allocated by "
      "PyTorch, and 5.00 GiB is reserved by PyTorch but unallocated.\n");
  const std::string text = answer_of("import memory " + file + " --scenario " + kGpt2);
  EXPECT_THAT(text, HasSubstr("allocated: 70.00 GiB measured for "));
  EXPECT_THAT(text, HasSubstr("has no parts"));
  EXPECT_THAT(refusal_of("import memory " + file + " --rank 1"), HasSubstr("go with --scenario"));
  EXPECT_THAT(refusal_of("import memory " + file + " --gpu 3"), HasSubstr("there is nothing of GPU 3"));
  EXPECT_THAT(refusal_of("import memory " + file + " --scenario " + kGpt2 + " --rank 99"), HasSubstr("there is no device 99"));
}

}  // namespace
}  // namespace panpipe::test
