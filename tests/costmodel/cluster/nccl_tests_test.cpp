// Output of nccl-tests as tables; the tables as a file. Faults stand in tests/input_errors.
#include "costmodel/cluster/nccl_tests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/costmodel/cluster/parse.hpp"

namespace panpipe {
namespace {

using testing::ElementsAre;
using testing::Pair;

const std::string kHeader =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n";

std::string ranks(int count, int per_node) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "#  Rank " + std::to_string(i) + " Group  0 Pid 10" + std::to_string(i) + " on      n" +
            std::to_string(i / per_node) + " device  " + std::to_string(i % per_node) + " [0000:07:00] NVIDIA A100-SXM4-80GB\n";
  return text;
}

const std::string kStart =
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20\n#\n# Using devices\n";

// As version 2.19 prints under mpirun --tag-output, with a log's line between.
const std::string kReduce =
    "[1,0]<stdout>:# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809\n"
    "[1,0]<stdout>:# Collective test starting: all_reduce_perf\n" +
    kStart + ranks(16, 8) + "n0:1:1 [0] NCCL INFO Connected all rings\n#\n" + kHeader +
    "[1,0]<stdout>:           0             0     float     sum      -1     5.00    0.00    0.00      0     6.00    0.00    0.00 "
    "     0\n"
    "     1048576        262144     float     sum      -1   101.90   10.29   19.29      0   100.50   10.43   19.56      0\n"
    "     2097152        524288     float     sum      -1   120.00   17.48   32.77      0   119.00   17.62   33.04      2\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 25.9\n#\n";

TEST(NcclTests, ReadsAnAllReduceOverTwoNodes) {
  const auto runs = parse_nccl_tests(kReduce, "log.txt");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].kind, "all_reduce");
  EXPECT_EQ(runs[0].ranks, 16);
  EXPECT_EQ(runs[0].nodes, 2);
  EXPECT_EQ(runs[0].device, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(runs[0].tests, "2.19.6");
  EXPECT_EQ(runs[0].nccl, "2.28.9");
  // In place; the row of no bytes is left out.
  EXPECT_THAT(runs[0].rows, ElementsAre(Pair(mib(1), micros(100.5)), Pair(mib(2), micros(119))));
  EXPECT_THAT(runs[0].warnings,
              ElementsAre("log.txt:28: 2 wrong elements in this row: its time is taken, but look at the machine"));
}

// Older versions print no name and no root; the operation and bus over algorithm bandwidth (2 x 7/8) identify an all-reduce.
TEST(NcclTests, ReadsOlderOutput) {
  const std::string header =
      "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n";
  const auto runs = parse_nccl_tests(
      kStart + ranks(8, 8) + header + " 4194304  1048576  float  sum  101.5  41.32  72.32  1e-06  N/A  0.00  0.00  N/A\n",
      "old.txt");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].kind, "all_reduce");
  EXPECT_EQ(runs[0].nodes, 1);
  EXPECT_THAT(runs[0].rows, ElementsAre(Pair(mib(4), micros(101.5))));  // the in-place time is missing
}

const std::string kGatherRow = "  1048576  131072  float  none  -1  50.0  20.97  18.35  0  60.0  17.48  15.29  0\n";

TEST(NcclTests, FindsTheKindInACommandTheNameOfTheFileOrAnOption) {
  const std::string text = kStart + ranks(8, 8) + kHeader + kGatherRow;
  EXPECT_EQ(parse_nccl_tests("mpirun -np 8 /opt/nccl-tests/build/all_gather_perf_mpi -b 8\n" + text, "log")[0].kind,
            "all_gather");
  EXPECT_EQ(parse_nccl_tests(text, "logs/reduce_scatter_perf-8.txt")[0].kind, "reduce_scatter");
  EXPECT_EQ(parse_nccl_tests(text, "log", {.kind = "all_to_all", .ranks = {}, .nodes = {}})[0].kind, "all_to_all");
  // Out of place.
  EXPECT_THAT(parse_nccl_tests(text, "all_gather_perf")[0].rows, ElementsAre(Pair(mib(1), micros(50))));
}

// NCCL_TESTS_SPLIT: sixteen ranks on two nodes as eight pairs, one rank of each on either node.
TEST(NcclTests, SplitGroupsAreMeasuredByTheFirst) {
  std::string text = "# Collective test starting: all_reduce_perf\n" + kStart;
  for (int i = 0; i < 16; ++i)
    text += "#  Rank " + std::to_string(i) + " Group " + std::to_string(i % 8) + " Pid 1 on n" + std::to_string(i / 8) +
            " device 0 [0000:07:00] NVIDIA H100\n";
  const auto runs = parse_nccl_tests(
      text + kHeader + " 1048576  262144  float  sum  -1  90.0  11.65  11.65  0  91.0  11.52  11.52  0\n", "log");
  EXPECT_EQ(runs[0].ranks, 2);
  EXPECT_EQ(runs[0].nodes, 2);
}

TEST(NcclTests, OneTableForEachKindAndFormWithMediansOfRepeats) {
  auto runs = parse_nccl_tests(kReduce + kReduce, "a");  // two runs in one text
  ASSERT_EQ(runs.size(), 2U);
  runs[1].rows[0].second = micros(104.5);
  for (NcclTestsRun& run :
       parse_nccl_tests("# Collective test starting: all_gather_perf\n" + kStart + ranks(8, 8) + kHeader + kGatherRow, "b"))
    runs.push_back(run);
  const CollectiveTables tables = tables_of(runs);
  ASSERT_EQ(tables.tables.size(), 2U);
  EXPECT_EQ(tables.tables[0].kind, "all_gather");
  EXPECT_EQ(tables.tables[1].times.points.size(), 2U);
  EXPECT_DOUBLE_EQ(tables.tables[1].times.points[0].second.base(), 102.5e-6);
  EXPECT_EQ(tables.measured.at("hosts"), "n0, n1");
  EXPECT_EQ(tables.measured.at("nccl"), "2.28.9");
}

TEST(CollectiveTables, ReadBackWhatIsWritten) {
  const CollectiveTables made = tables_of(parse_nccl_tests(kReduce, "log.txt"));
  const std::string text = to_yaml(made, "A heading.");
  EXPECT_EQ(text,
            "# A heading.\npanpipe: 1\nkind: collectives\nmeasured:\n  device: \"NVIDIA A100-SXM4-80GB\"\n  hosts: \"n0, n1\"\n"
            "  nccl: \"2.28.9\"\n  nccl-tests: \"2.19.6\"\ntables:  # bytes of the full tensor, time\n- kind: all_reduce\n"
            "  ranks: 16\n  nodes: 2\n  table:\n  - [1 MiB, 100.5 us]\n  - [2 MiB, 119 us]\n");
  const CollectiveTables again = parse_collective_tables(text, "t.yaml");
  ASSERT_EQ(again.tables.size(), 1U);
  EXPECT_EQ(again.tables[0].times.points, made.tables[0].times.points);
  EXPECT_EQ(again.measured, made.measured);
}

// 256 MB at 85 GB/s of bus bandwidth over 128 ranks: 2 x 127/128 x 256e6 / 85e9.
TEST(CollectiveTables, BusBandwidthsAreTimes) {
  const CollectiveTables tables = parse_collective_tables(
      "kind: collectives\ntables: [{kind: all_reduce, ranks: 128, nodes: 16, bus_bandwidth: [[256 MB, 85 GB/s]]}]\n", "t.yaml");
  EXPECT_DOUBLE_EQ(tables.tables[0].times.points[0].second.base(), 2 * 127.0 / 128 * 256e6 / 85e9);
  EXPECT_DOUBLE_EQ(bus_factor("all_gather", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("send_recv", 4), 1);
}

TEST(CollectiveTables, AClusterNamesThem) {
  const Cluster cluster = cluster_from("clusters/aws-p5.yaml");
  ASSERT_NE(cluster.collectives, nullptr);
  EXPECT_EQ(cluster.collectives->tables.size(), 10U);
  EXPECT_EQ(cluster_from("clusters/h100x8.yaml").collectives, nullptr);
  EXPECT_EQ(cluster_from("{file: clusters/aws-p5.yaml, collectives: aws-p5-nanotron}").collectives->tables.size(), 7U);
}

}  // namespace
}  // namespace panpipe
