// The arena's page, and what it reports of orders and requests that are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/find_family.hpp"
#include "tests/fault.hpp"
#include "tests/study/arena/requests.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::study {
namespace {

using ::testing::HasSubstr;

const std::string kWave8k = PANPIPE_SCENARIOS "/schedules/wave-p4-m8-8k.csv";
const std::string kWave32k = PANPIPE_SCENARIOS "/schedules/wave-p4-m8-32k.csv";

using test::fault_of;

// The order that was given: its place under every ratio, its picture, its cycles; families at the same place share a mark.
TEST(ArenaPage, ShowsWhatIsNewAndWhoWins) {
  ArenaRequest request =
      request_of({read_entrant(kWave32k), read_entrant("zb-h1"), read_entrant("zb-auto"), read_entrant("v-min")}, 4, 8, "32k");
  request.ratios.push_back(read_cost_ratio("even"));
  request.clusters = {"h100x8"};
  const std::string page = to_page(judge(request));
  const auto times = [&](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = page.find(part); at != std::string::npos; at = page.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(times("<h3>wave-p4-m8-32k.csv</h3>"), 1U);
  EXPECT_EQ(times("<td class=\"good num\">1 of 4</td>"), 2U);  // under both ratios
  EXPECT_EQ(times("src=\"data:image/svg+xml,"), 1U);
  EXPECT_EQ(times("Where it deadlocks"), 1U);
  EXPECT_EQ(times("\nzb-auto\nzb-h1</title>") + times("\nzb-h1\nzb-auto</title>"), 2U);  // one mark for both, under each ratio
  EXPECT_EQ(times("<td class=\"good\">★</td>"), 4U);                                     // the order and v-min, twice
  EXPECT_EQ(times(">wave-p4-m8-32k.csv: 26.698</td>"), 2U);                              // within 4 and within 8
  EXPECT_EQ(times("http://") - times("http://www.w3.org"), 0U);                          // nothing is loaded
}

TEST(ArenaPage, ReportsWhyAnOrderTakesNoPart) {
  const std::string file = test::scratch().write("dead-on-a-page.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  const std::string page = to_page(judge(request_of({read_entrant(file)}, 2, 2)));
  EXPECT_THAT(page, HasSubstr("<h3>dead-on-a-page.csv: not legal</h3>"));
  EXPECT_THAT(page, HasSubstr("rank 1 waits at 1F1 for 0F1, cell 2 of rank 0: a cycle"));
}

// A file's order that is legal as text and no schedule: reported with the cycle, and nothing else of it is known.
TEST(BadInput, OrderThatCannotFinish) {
  const std::string file = test::scratch().write("dead.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  const Judged judged = judged_alone(file, 2, 2);
  EXPECT_FALSE(judged.legal());
  EXPECT_EQ(judged.faults[0],
            "rank 0: step 1: 0B0 the order cannot finish: rank 0 waits at 0B0 for 1B0, cell 3 of rank 1; rank 1 waits at 1F1 for "
            "0F1, cell 2 of rank 0: a cycle");
  EXPECT_EQ(judged.makespan, 0);
}

TEST(BadInput, OrderThatMissesAPass) {
  const std::string file = test::scratch().write("missing.csv", "0F0,0F1,0B0\n1F0,1F1,1B0,1B1\n");
  EXPECT_EQ(judged_alone(file, 2, 2).faults[0], "rank 0: 0B1 is missing (as B, or as I and W)");
}

TEST(BadInput, IsRefusedInWords) {
  EXPECT_EQ(fault_of([] { read_entrant("zb-h3"); }), fault_of([] { make_schedule("zb-h3", 1, 1); }));
  EXPECT_THAT(
      fault_of([] { judged_alone(kWave8k, 2, 8); }),
      HasSubstr("wave-p4-m8-8k.csv has 4 ranks and 8 microbatches, the arena 2 and 8\n  help: an order of a file is judged at "
                "its own sizes: leave ranks and microbatches out"));
  ArenaRequest far = request_of({read_entrant("1f1b")}, 16, 16);
  far.clusters = {"h100x8"};
  EXPECT_EQ(fault_of([&] { judge(far); }),
            "error: cluster h100x8 has 8 devices, too few for 16 ranks\n  help: a cluster file with more nodes has more; 'none' "
            "leaves clusters out");
  far.clusters = {"h100"};
  EXPECT_EQ(fault_of([&] { judge(far); }), "error: no cluster file 'h100'\n  help: did you mean 'clusters/h100x8.yaml'?");
  const std::string file = test::scratch().write("faulty-cluster.yaml", "name: mine\ndevice: h100-sxm\nnode: {devices: eight}\n");
  far.clusters = {file};
  EXPECT_THAT(fault_of([&] { judge(far); }), HasSubstr("faulty-cluster.yaml:"));
  EXPECT_EQ(judged_alone("wave-search,held=0.5", 4, 8).refused,
            "a rank runs all its 4 stages of a microbatch before the first gradient: it holds at least 1, not 0.5");
}

}  // namespace
}  // namespace panpipe::study
