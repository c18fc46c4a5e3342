// Checkpoints that are written on GPUs, and runs that go on from them: on another mesh, and on the CPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/program.hpp"
#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

// The last steps of a run, as one that went on has them.
Trained last_steps(Trained run, std::size_t count) {
  run.metrics.erase(run.metrics.begin(), run.metrics.end() - static_cast<std::ptrdiff_t>(std::min(count, run.metrics.size())));
  return run;
}

// The samples of a step are the same on every mesh: microbatches times replicas stay 8.
std::string mesh(const Ranks& ranks) { return scenario_file(small_gpt(ranks, "", 2, 8 / ranks.data)); }

TEST(CheckpointsOfGpus, GoOnOnAnotherMesh) {
  const Trained whole = train_on_cpu(mesh({1}), "--steps 4");
  const std::string folder = temporary_folder() + "/checkpoints";
  const Trained first = train_on_stand_in(mesh({2, 1, 2}), "--steps 2 --checkpoint " + folder);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string resumed = "--steps 4 --resume " + folder + "/step-000002";
  for (const Ranks& ranks : {Ranks{1, 2}, Ranks{2, 2}}) {
    SCOPED_TRACE(std::to_string(ranks.pipeline) + " x " + std::to_string(ranks.data));
    expect_same_training(train_on_stand_in(mesh(ranks), resumed), last_steps(whole, 2), 1e-5);
  }
  SCOPED_TRACE("on the CPU");
  expect_same_training(train_on_cpu(mesh({2}), resumed), last_steps(whole, 2), 1e-5);
}

}  // namespace
}  // namespace panpipe::test
