// The output of `panpipe check --links`.
#include "costmodel/cluster/links_matrix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/costmodel/cluster/parse.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;

TEST(LinksMatrix, OfTwoBridgedCards) {
  EXPECT_EQ(links_matrix(cluster_from("rtx3090ti-x2")),
            "rtx3090ti-x2: 2 devices on 1 node\n"
            "\n"
            "Bandwidth of a transfer alone, GB/s (row sends to column)\n"
            "                       0        1\n"
            "  0  node0.gpu0        -  56.25 B\n"
            "  1  node0.gpu1  56.25 B        -\n"
            "\n"
            "Latency, us\n"
            "                      0       1\n"
            "  0  node0.gpu0       -       2\n"
            "  1  node0.gpu1       2       -\n"
            "\n"
            "  B  bridge: NVLink bridge between the two\n"
            "\n"
            "Shared resources\n"
            "  2 x bridge of 56.25 GB/s: node0.bridge.gpu0-gpu1 ... node0.bridge.gpu1-gpu0\n"
            "  2 x PCIe link of 9.2 GB/s: node0.gpu0.pcie.both ... node0.gpu1.pcie.both\n"
            "  2 x PCIe link of 12.5 GB/s: node0.gpu0.pcie.in ... node0.gpu1.pcie.in\n"
            "  2 x PCIe link of 12.5 GB/s: node0.gpu0.pcie.out ... node0.gpu1.pcie.out\n"
            "  2 x host memory of 6.23 GB/s: node0.gpu0.staging ... node0.gpu1.staging\n");
}

TEST(LinksMatrix, OfAClusterInPlace) {
  EXPECT_EQ(links_matrix(cluster_from("{devices: 2, memory: 24 GiB, link: {latency: 0.26 ms, bandwidth: unlimited}}")),
            "given: 2 devices on 1 node\n"
            "\n"
            "Bandwidth of a transfer alone, GB/s (row sends to column)\n"
            "                         0       1\n"
            "  0  node0.device0       -     inf\n"
            "  1  node0.device1     inf       -\n"
            "\n"
            "Latency, us\n"
            "                         0       1\n"
            "  0  node0.device0       -     260\n"
            "  1  node0.device1     260       -\n"
            "\n"
            "  G  given: written in place, one link per ordered pair\n"
            "\n"
            "Nothing is shared.\n");
}

TEST(LinksMatrix, OfManyNodesShowsOne) {
  const std::string text = links_matrix(cluster_from("a100-80g-x64"));
  EXPECT_THAT(text, HasSubstr("a100-80g-x64: 64 devices on 8 nodes\n"
                              "One node of each kind is shown (1 of 8); every other is wired like it.\n"));
  EXPECT_THAT(text, HasSubstr("Between nodes (node0.gpu0 to node1.gpu0): 25 N GB/s, 5 us\n"));
  EXPECT_THAT(text, HasSubstr("  64 x NIC of 25 GB/s: node0.nic0.in ... node7.nic7.in\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("node1.gpu1")));
}

TEST(LinksJson, HoldsEveryPairAndResource) {
  const auto document = nlohmann::json::parse(links_json(cluster_from("rtx3090x8")));
  EXPECT_EQ(document["schema"], "panpipe-links/1");
  EXPECT_EQ(document["pairs"].size(), 56u);
  EXPECT_EQ(document["complete"], true);
  EXPECT_TRUE(document["between_nodes"].is_null());
  const auto& first = document["pairs"][0];
  EXPECT_EQ(first["from"], "node0.gpu0");
  EXPECT_EQ(first["class"], "bridge");
  EXPECT_EQ(first["bandwidth_bytes_per_s"], 56.25e9);
  EXPECT_EQ(first["latency_s"], 2e-6);
  const auto& second = document["pairs"][1];
  EXPECT_EQ(second["class"], "host");
  EXPECT_EQ(second["resources"][4]["name"], "node0.socket0.memory");
  EXPECT_EQ(second["resources"][4]["uses"], 2);
}

TEST(LinksJson, UnlimitedIsNullAndTablesAreKept) {
  const auto document = nlohmann::json::parse(
      links_json(cluster_from("{devices: 2, memory: 24 GiB, link: {table: [[0 B, 20 us], [1 MiB, 70 us]]}}")));
  EXPECT_TRUE(document["pairs"][0]["bandwidth_bytes_per_s"].is_null());
  EXPECT_EQ(document["pairs"][0]["table"][1][0], 1048576);
}

}  // namespace
}  // namespace panpipe
