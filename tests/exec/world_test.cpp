// Ranks that somebody else starts: what the variables of the environment state of the world.
#include <gtest/gtest.h>

#include "exec/launch/world.hpp"
#include "tests/exec/variables.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

std::optional<World> world_of(const Variables& variables) { return world_of_environment(value_in(variables)); }

using test::fault_of;

TEST(World, NobodyStartedUs) { EXPECT_FALSE(world_of({})); }

TEST(World, Torchrun) {
  const auto world = world_of({{"RANK", "3"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "1234"}});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->rank, 3);
  EXPECT_EQ(world->size, 8);
  EXPECT_EQ(world->local_rank, 1);
  EXPECT_EQ(world->local_size, 2);
  EXPECT_TRUE(world->local_reported);
  EXPECT_EQ(world->master_address, "10.0.0.1");
  EXPECT_EQ(world->master_port, 1234);
  EXPECT_EQ(world->launcher, "torchrun");
  EXPECT_FALSE(world->store_elsewhere);
}

TEST(World, TorchrunsAgentKeepsTheStoreAndCountsAttempts) {
  const auto world = world_of({{"RANK", "0"},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "localhost"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_TRUE(world->store_elsewhere);
  EXPECT_EQ(world->store_prefix, "attempt_2");
  EXPECT_EQ(world->master_port, 29500);
}

TEST(World, Slurm) {
  Variables variables{{"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "5"},
                      {"SLURM_STEP_NUM_TASKS", "8"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                      {"SLURM_STEP_NODELIST", "gpu[07-08]"}};
  const auto world = world_of(variables);
  ASSERT_TRUE(world);
  EXPECT_EQ(world->rank, 5);
  EXPECT_EQ(world->local_size, 4);
  EXPECT_EQ(world->master_address, "gpu07");
  EXPECT_EQ(world->launcher, "srun");
  variables.erase("SLURM_STEP_ID");  // a batch script is no step: panpipe run starts the ranks there
  EXPECT_FALSE(world_of(variables));
}

// Two nodes of four tasks, one of two, one of one.
TEST(World, SlurmsNodesMayHoldDifferentNumbersOfTasks) {
  Variables variables{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "5"},           {"SLURM_STEP_NUM_TASKS", "11"},
                      {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "gpu1"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2),2,1"}};
  const std::vector<int> tasks = {4, 4, 2, 1};
  for (int node = 0; node < 4; ++node) {
    variables["SLURM_NODEID"] = std::to_string(node);
    EXPECT_EQ(world_of(variables)->local_size, tasks[node]) << node;
  }
  variables["SLURM_NODEID"] = "4";
  EXPECT_FALSE(world_of(variables)->local_reported) << "the list ends before: the ranks find it out";
}

TEST(World, WhereTheLocalNumberIsNotStatedTheRanksFindIt) {
  EXPECT_FALSE(world_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}})->local_reported);
  EXPECT_FALSE(world_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "head"}})->local_reported);
  EXPECT_TRUE(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}})->local_reported) << "alone";
}

TEST(World, AnIpv6MasterMayStandInBrackets) {
  const auto master = [](const std::string& address) {
    return world_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", address}})->master_address;
  };
  EXPECT_EQ(master("[::1]"), "::1");
  EXPECT_EQ(master("::1"), "::1");
  EXPECT_EQ(master("[]"), "[]") << "nothing is no address: the ranks say so";
}

TEST(World, FirstHostOfSlurmsLists) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("node1,node2"), "node1");
  EXPECT_EQ(first_host("node[03-05,9],login"), "node03");
  EXPECT_EQ(first_host("login,node[03-05]"), "login");
}

TEST(World, Mpi) {
  const auto open = world_of({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(open->launcher, "mpirun");
  EXPECT_EQ(open->master_address, "127.0.0.1");
  const auto mpich = world_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MASTER_ADDR", "head"}});
  EXPECT_EQ(mpich->master_address, "head");
  EXPECT_EQ(mpich->size, 4);
  EXPECT_FALSE(world_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));  // one task: an ordinary program
}

TEST(World, WhatCannotBeIsRefusedByName) {
  const std::vector<std::pair<Variables, std::string>> cases = {
      {{{"RANK", "1"}},
       "environment: RANK is set and WORLD_SIZE is not: torchrun sets both; unset them to start the ranks with panpipe run"},
      {{{"WORLD_SIZE", "2"}},
       "environment: WORLD_SIZE is set and RANK is not: torchrun sets both; unset them to start the ranks with panpipe run"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "environment: RANK=2 but WORLD_SIZE=2: ranks are 0 to 1"},
      {{{"RANK", "one"}, {"WORLD_SIZE", "2"}}, "environment: RANK must be a whole number of at least 0, not 'one'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "environment: WORLD_SIZE must be a whole number of at least 1, not '0'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_PORT", "123456"}},
       "environment: MASTER_PORT=123456 is no port: 1 to 65535"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       "environment: MASTER_ADDR is not set: with ranks on several hosts every rank needs the address of rank 0's host (2 of 4 "
       "ranks "
       "are on this one)"}};
  for (const auto& [variables, message] : cases) {
    const Variables& given = variables;
    EXPECT_EQ(fault_of([&] { world_of(given); }), "error: " + message);
  }
}

}  // namespace
}  // namespace panpipe::exec
