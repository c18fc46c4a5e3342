// One device predicts a cluster: it holds a few units at a time however large the model is, and knows the shards of ranks that it
// stands for.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

// Largest resident set of any program that was run so far, MiB.
long most_memory() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss / 1024;
}

std::string scenario_of(const std::string& layers, const std::string& more = "") {
  const std::string file = temporary_folder() + "/scenario.yaml";
  write_file(file, fmt::format("panpipe: 1\ncluster: {{devices: 2, memory: 4 GiB, link: {{latency: 50 us, bandwidth: 2 GB/s}}}}\n"
                               "workload: {{model: gpt, {}, tied_embedding: false}}\nbatch: {{micro: 1, microbatches: 2}}\n"
                               "schedule: 1f1b\noptimizer: adam\n{}",
                               layers, more));
  return file;
}

TEST(OneDevice, HoldsAWindowOfTheModel) {
  const auto profile = [](const std::string& file, const std::string& window) {
    const Outcome run = panpipe("profile " + file + " --ranks 1 --threads 1 --repetitions 5 --seconds 0.1 --window " + window +
                                " -o " + temporary_folder() + "/profile.yaml");
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return most_memory();
  };
  const long program = profile(scenario_of("layers: 1, hidden: 32, heads: 4, vocabulary: 64, sequence: 16"), "1MiB");
  // 8 layers x 12 x 512^2 x 4 B = 96 MiB of parameters, as much of gradients, twice that of the optimizer: 384 MiB.
  const std::string large = scenario_of("layers: 8, hidden: 512, heads: 8, vocabulary: 64, sequence: 16");
  const long windowed = profile(large, "1MiB"), whole = profile(large, "8GiB");
  // The largest unit, half a layer: 8 x 512^2 x 4 B = 8 MiB, four times that with gradients and the optimizer's state.
  EXPECT_LT(windowed, program + 64);
  EXPECT_GT(whole, windowed + 64) << "else the program itself is larger than the model";
}

// The documented sequence, with layers that two ranks split: one shard is measured, by one process, which talks to nobody.
TEST(OneDevice, PredictsATensorParallelRunThatIsThenRun) {
  const std::string folder = temporary_folder(), profile = folder + "/units.yaml", links = folder + "/links.yaml";
  const std::string file =
      scenario_of("layers: 2, hidden: 32, heads: 4, vocabulary: 64, sequence: 16", "parallel: {pipeline: 1, tensor: 2}\n");
  const auto expect_done = [](const std::string& arguments) {
    const Outcome run = panpipe(arguments);
    EXPECT_EQ(run.exit_code, 0) << arguments << "\n" << run.err;
  };
  expect_done("profile " + file + " --ranks 1 --threads 1 --repetitions 5 --seconds 0.1 -o " + profile);
  expect_done("profile " + file + " --ranks 2 --only-transfers --repetitions 5 -o " + links);
  expect_done("estimate " + file + " --set 'profile=[" + profile + ", " + links + "]' -o " + folder + "/predicted");
  expect_done("run " + file + " --steps 2 --no-progress --transport local -o " + folder + "/measured");
  expect_done("compare " + folder + "/predicted " + folder + "/measured");
  EXPECT_THAT(read_file(folder + "/predicted/scenario.yaml"), testing::HasSubstr("profile: [" + profile + ", " + links + "]"));
}

}  // namespace
}  // namespace panpipe::test
