// The index that a search asks for each cut, against the rule.
#include "costmodel/plan/cut_links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace panpipe {
namespace {

TEST(CutLinks, AreTheStageLinksOfAnyCut) {
  std::mt19937 random(5);
  int links_seen = 0;
  for (int round = 0; round < 300; ++round) {
    WorkloadCost workload;
    const int units = 3 + static_cast<int>(random() % 10);
    workload.units.resize(units);
    for (int from = 0; from + 1 < units; ++from)
      for (int to = from + 1; to < units; ++to) {
        if (to > from + 1 && random() % 4 != 0) continue;
        const int tensor = random() % 3 == 0 ? -1 : from;  // one of a unit's own, or without name
        const Bytes bytes(tensor < 0 ? static_cast<std::int64_t>(1 + random() % 50) : 100 + from);
        workload.edges.push_back({from, to, tensor, bytes, random() % 3 != 0});
      }
    Cuts cuts;
    for (int u = 1; u < units; ++u)
      if (random() % 3 == 0) cuts.push_back(u);
    std::vector<int> stage_of;
    for (int u = 0; u < units; ++u)
      stage_of.push_back(static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), u) - cuts.begin()));
    std::vector<StageLink> found;
    CutLinks(workload).links(cuts, found);
    const std::vector<StageLink> expected = stage_links(workload.edges, stage_of);
    ASSERT_EQ(found.size(), expected.size()) << round;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(std::tuple(found[i].from, found[i].to, found[i].bytes, found[i].gradient_bytes, found[i].gradient),
                std::tuple(expected[i].from, expected[i].to, expected[i].bytes, expected[i].gradient_bytes, expected[i].gradient))
          << round;
      ++links_seen;
    }
    // Of one cut, the one link from before it to behind it.
    for (int cut = 1; cut < units; ++cut) {
      CutLinks(workload).links({cut}, found);
      ASSERT_EQ(found.size(), 1U);
      EXPECT_EQ(CutLinks(workload).bytes_across(cut), found.front().bytes) << round;
    }
  }
  EXPECT_GT(links_seen, 500);
}

}  // namespace
}  // namespace panpipe
