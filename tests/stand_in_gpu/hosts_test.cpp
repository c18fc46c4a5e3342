// Two hosts with a GPU each: network namespaces with a cable between them. NCCL's connections go through it too.
#include <gtest/gtest.h>

#include "tests/exec/two_hosts.hpp"
#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

TEST_F(TwoHosts, TrainOnGpusOverNccl) {
  const std::string scenario = scenario_file(small_gpt({2, 2}));
  const Trained cpu = train_on_cpu(scenario, "--steps 2");
  // Two ranks on each host, started as by torchrun: rank 0 and 1 there, 2 and 3 here, each with its place on its host.
  const std::string metrics = scenario + ".jsonl";
  std::vector<Started> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.push_back(
        start(rank / 2,
              stand_in_command("run " + scenario +
                               " --transport nccl --device cuda --no-progress --threads 1 --steps 2 --metrics " + metrics),
              stand_in_settings({{"STAND_IN_GPUS", "2"},
                                 {"RANK", std::to_string(rank)},
                                 {"WORLD_SIZE", "4"},
                                 {"LOCAL_RANK", std::to_string(rank % 2)},
                                 {"LOCAL_WORLD_SIZE", "2"}})));
  Trained trained;
  for (Started& rank : ranks) {
    const Ended ended = rank.end();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
  }
  trained.metrics = lines_of_json(metrics);
  expect_same_training(trained, cpu);
}

}  // namespace
}  // namespace panpipe::test
