// `panpipe export`: where its files go, its reports on standard error, and what `panpipe plan --for` leaves to choose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kScenario = "scenarios/runs/gpt-small-cpu-x2.yaml";

TEST(Export, GoesToStandardOutputOrToAFile) {
  const std::string file = temporary_folder() + "/arguments.sh";
  const std::string printed = answer_of("export megatron " + kScenario);
  EXPECT_THAT(printed, StartsWith("#!/bin/sh\n"));
  EXPECT_THAT(printed, HasSubstr("--pipeline-model-parallel-layout 'Et*2|t*2L'"));
  EXPECT_EQ(panpipe("export megatron " + kScenario + " -o -").out, printed);
  EXPECT_EQ(panpipe("export megatron " + kScenario + " -o " + file).exit_code, 0);
  EXPECT_EQ(read_file(file), printed);
}

TEST(Export, AnOrderWithoutANameLiesNextToTheFile) {
  const std::string folder = temporary_folder(), arguments = "export torchtitan " + kScenario + " --set schedule=zb-h1";
  const Outcome written = panpipe(arguments + " -o " + folder + "/job.toml");
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_THAT(written.err, HasSubstr("written to " + folder + "/job.toml, the order to " + folder + "/job.csv\n"));
  EXPECT_THAT(read_file(folder + "/job.csv"), StartsWith("0F0,0F1,0I0,"));
  EXPECT_EQ(refusal_of(arguments),
            "error: torchtitan has no name for the order of zb-h1: it goes into a file beside\n  help: name the file that the "
            "text is written into\n");
}

TEST(Export, WhatCannotBeExpressedIsAWarning) {
  const Outcome run = panpipe("export megatron " + kScenario + " --set 'optimizer={name: adam, no_decay: [biases]}'");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "warning: Megatron-LM cannot express optimizer.no_decay: [biases]\n");
  EXPECT_THAT(run.out, HasSubstr("# cannot express optimizer.no_decay: [biases]\n"));
}

}  // namespace
}  // namespace panpipe::test
