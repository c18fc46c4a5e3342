// Nodes that a token's experts lie on.
#include "costmodel/cost/expert_dispatch.hpp"

#include <gtest/gtest.h>

#include "costmodel/cost/nccl_model.hpp"

namespace panpipe {
namespace {

// DeepSeek-V3: 4 of 8 groups, a group a node: exactly 4 nodes (arXiv 2412.19437, section 3.2.2). Two groups a node: of 4 nodes
// one has none of the 4 of 8 with C(6, 4) / C(8, 4) = 15 / 70. Two nodes a group: 2 of a group's 32 experts, 16 a node, are on
// both unless both are on one: 2 - 2 C(16, 2) / C(32, 2) = 2 - 15 / 31 + ... = 1 + 16 / 31.
TEST(ExpertDispatch, NodesOfATokenInGroups) {
  const Routing deepseek{256, 8, 8, 4};
  EXPECT_DOUBLE_EQ(nodes_of_token(deepseek, 1), 1);
  EXPECT_NEAR(nodes_of_token(deepseek, 8), 4, 1e-12);
  EXPECT_NEAR(nodes_of_token(deepseek, 4), 4 * (1 - 15.0 / 70), 1e-12);
  EXPECT_NEAR(nodes_of_token(deepseek, 16), 4 * (1 + 16.0 / 31), 1e-12);
}

// Two of eight experts, four nodes of two: the second is on the first one's node with 1 / 7.
TEST(ExpertDispatch, NodesOfATokenWithoutGroups) {
  EXPECT_NEAR(nodes_of_token({8, 2, 1, 1}, 4), 2 - 1.0 / 7, 1e-12);
  EXPECT_NEAR(nodes_of_token({8, 8, 1, 1}, 4), 4, 1e-12);
}

// Routing limited to groups is made for one copy a node; a stated way counts first.
TEST(ExpertDispatch, GroupsAreSentToNodes) {
  const Routing grouped{256, 8, 8, 4}, free{128, 8, 1, 1};
  EXPECT_TRUE(sends_to_nodes(ExpertDispatch::ByModel, grouped));
  EXPECT_FALSE(sends_to_nodes(ExpertDispatch::ByModel, free));
  EXPECT_FALSE(sends_to_nodes(ExpertDispatch::Rows, grouped));
  EXPECT_TRUE(sends_to_nodes(ExpertDispatch::Nodes, free));
}

// 64 members on 8 nodes of 8: row by row 56 / 64 of S leave each member over its 1 / 8 of the node's way out; a copy a node
// halves that, and then 7 / 8 of S go on inside.
TEST(ExpertDispatch, OneCopyANodeCrosses) {
  NcclGroup group;
  group.members = 64;
  group.nodes = 8;
  group.in_node = 8;
  group.nvlink = true;
  group.fabric = 300e9;
  group.network = 8 * 40e9;
  const double bytes = 400e6;
  const NcclCollective rows = nccl_collective(CollectiveKind::AllToAll, bytes, group);
  EXPECT_NEAR(rows.time - rows.latency, bytes * 56 / 64 / 40e9, 1e-9);
  group.crossing = 0.5;
  group.copies = true;
  const NcclCollective nodes = nccl_collective(CollectiveKind::AllToAll, bytes, group);
  EXPECT_NEAR(nodes.time - nodes.latency, bytes * 28 / 64 / 40e9, 1e-9);
  group.crossing = 0.1;
  const NcclCollective inside = nccl_collective(CollectiveKind::AllToAll, bytes, group);
  EXPECT_NEAR(inside.time - inside.latency, bytes * 7 / 8 / 300e9, 1e-9);
}

// DeepEP's README on H800 (NVLink 160 GB/s, an adapter of 50 each), 7168 wide, in 8 bits with a scale in 4 bytes for each 128.
// Normal kernels: 4096 tokens, 8 of 256 experts in 4 of 8 groups, a group a node; GB/s count each token once a node, the own one
// too. Low latency: 128 tokens to 8 experts anywhere. Measured against the rates that this project takes a priori.
TEST(ExpertDispatch, ReachesWhatDeepEpPublishes) {
  const double width = 7168 + 7168 / 128 * 4;
  const auto time = [](int nodes, double bytes, double crossing, bool at_once) {
    NcclGroup group;
    group.members = 8 * nodes;
    group.nodes = nodes;
    group.in_node = 8;
    group.fabric = 160e9;
    group.network = 8 * 0.8 * 50e9;
    group.hop = 5e-6;
    group.crossing = crossing;
    group.copies = crossing < 1;
    group.at_once = at_once;
    return nccl_collective(CollectiveKind::AllToAll, bytes, group).time;
  };
  struct Published {
    int nodes;
    double figure;
  };
  for (const auto& [nodes, rate] : {Published{2, 43e9}, {4, 58e9}, {8, 51e9}}) {
    const double of_token = nodes_of_token({256, 8, 8, 4}, nodes);
    const double measured = 4096 * of_token * width / rate;
    EXPECT_NEAR(time(nodes, 4096 * 8 * width, of_token / 8, false) / measured, 1, 0.2) << nodes;
  }
  for (const auto& [nodes, measured] : {Published{2, 118e-6}, {4, 155e-6}, {8, 173e-6}, {16, 192e-6}, {32, 194e-6}})
    EXPECT_NEAR(time(nodes, 128 * 8 * width, 1, true) / measured, 1, 0.2) << nodes;
}

}  // namespace
}  // namespace panpipe
