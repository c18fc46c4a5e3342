// The text form: PyTorch's files come back unchanged, ours adds to them, and marks that.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using test::rows_of;

Schedule read(const std::string& text) { return read_schedule_csv(text, "order.csv"); }

// torch.distributed.pipelining 2.14.1, ScheduleInterleavedZeroBubble, 2 ranks, 4 microbatches, 2 stages each, compute only.
const std::string kTorchComputeOnly =
    "0F0,0F1,2F0,,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2,2I3,2W3,0I2,0W2,0I3,0W3\r\n"
    ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2,1I2,3W3,1I3,1W2,1W3\r\n";
// The same for ScheduleGPipe with one stage each, after its passes were given their sends and receives.
const std::string kTorchWithCommunication =
    "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2,0RECV_B3,0B3,"
    "0REDUCE_GRAD,0RESHARD\r\n"
    "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1F1,1RECV_F2,1F2,1RECV_F3,1F3,1B0,1SEND_B0,1B1,1SEND_B1,1B2,1SEND_B2,1B3,1SEND_B3,"
    "1REDUCE_GRAD,1RESHARD\r\n";

TEST(Csv, PyTorchsFilesComeBackUnchanged) {
  for (const std::string& text : {kTorchComputeOnly, kTorchWithCommunication}) {
    const Schedule schedule = read(text);
    EXPECT_EQ(test::message_of(check_schedule(schedule)), "legal");
    EXPECT_EQ(to_csv(schedule, false), text);
    EXPECT_EQ(to_csv(schedule, true), text);
  }
}

TEST(Csv, EmptyCellsAreNoActions) {
  const Schedule schedule = read(",,0F0,,0B0,\r\n");
  EXPECT_EQ(rows_of(schedule)[0], "0F0 0B0");
  EXPECT_EQ(schedule.empty_cells, (std::vector<std::vector<std::int32_t>>{{2, 1, 1}}));
  EXPECT_EQ(to_csv(schedule, false), ",,0F0,,0B0,\r\n");
}

TEST(Csv, ShapeComesFromTheRows) {
  const Schedule schedule = read(kTorchComputeOnly);
  EXPECT_EQ(schedule.name, "order.csv");
  EXPECT_EQ(schedule.ranks, 2);
  EXPECT_EQ(schedule.stages, 4);
  EXPECT_EQ(schedule.microbatches, 4);
  EXPECT_EQ(schedule.stage_to_rank, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(schedule.chains, (std::vector<std::vector<int>>{{0, 1, 2, 3}}));
}

TEST(Csv, BlanksAndLineEndsAreFree) {
  EXPECT_EQ(to_csv(read(" 0F0 ,\t( 0F1 ; 0B0 )OVERLAP_F_B, 0B1"), false), "0F0,(0F1;0B0)OVERLAP_F_B,0B1\r\n");
}

TEST(Csv, CellsInQuotesAreCells) {
  EXPECT_EQ(to_csv(read("\"0F0\",\"\",\" (0F1;0B0)OVERLAP_F_B \",0B1\r\n"), false), "0F0,,(0F1;0B0)OVERLAP_F_B,0B1\r\n");
}

TEST(Csv, EverythingThatIsOursComesBack) {
  const std::string text =
      "#chain 0,1\r\n"
      "#chain 2,3\r\n"
      "0F0,0OFFLOAD0,(0F1;3F0)OVERLAP_F_F,0RELOAD0,0R0,0B0,OPT,SYNC\r\n"
      "2F0,(1F0;2W0)OVERLAP_F_W,(1F1;1B0)OVERLAP\r\n";
  const Schedule schedule = read("# a comment\n" + text);
  EXPECT_EQ(schedule.chains, (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(schedule.microbatches, 4);  // both directions
  EXPECT_EQ(rows_of(schedule)[0], "0F0 0OFFLOAD0 (0F1;3F0)OVERLAP_F_F 0RELOAD0 0R0 0B0 OPT SYNC");
  EXPECT_EQ(to_csv(schedule, false), text);
}

TEST(Csv, SequenceSplitsComeBack) {
  const std::string text = "0F0.0,0F0.1,0B0.1,0B0.0\r\n";
  EXPECT_EQ(read(text).splits, 2);
  EXPECT_EQ(to_csv(read(text), false), text);
}

TEST(Csv, HeaderLinesAreWrittenOnlyWhereTheRowsDoNotImplyThem) {
  EXPECT_EQ(to_csv(make_schedule("1f1b", 2, 1), false), "0F0,0B0\r\n1F0,1B0\r\n");
  Schedule two_directions = read("#chain 0,1\n#chain 2,3\n0F0,3F0,3B0,0B0\n2F0,1F0,1B0,2B0\n");
  EXPECT_EQ(to_csv(two_directions, false), "#chain 0,1\r\n#chain 2,3\r\n0F0,3F0,3B0,0B0\r\n2F0,1F0,1B0,2B0\r\n");
}

TEST(Csv, LettersOf2024AreRewritten) {  // mid-2024 files: B = input gradient, BW = full backward
  const Schedule with_bw = read("0F0,0BW0,0F1,0B1,0W1\n");
  EXPECT_EQ(rows_of(with_bw)[0], "0F0 0B0 0F1 0I1 0W1");
  ASSERT_EQ(with_bw.notes.size(), 1u);
  EXPECT_EQ(with_bw.notes[0],
            "the file uses the letters of 2024 (B = input gradient, BW = full backward); they were read as I and B");
  const Schedule without_bw = read("0F0,0B0,0W0\n");  // B and W of one microbatch can only be the older letters
  EXPECT_EQ(rows_of(without_bw)[0], "0F0 0I0 0W0");
  EXPECT_EQ(without_bw.notes.size(), 1u);
  EXPECT_TRUE(read("0F0,0F1,0I0,0W0,0B1\n").notes.empty());
}

std::string torch_refusal(const std::string& text) {
  return test::fault_of([&] { to_csv(read(text), true); });
}

TEST(Csv, ForPyTorchGroupsAreRespelt) {
  EXPECT_EQ(to_csv(read("0F0,(0F1;0W0)OVERLAP_F_W,(0F2;0F3)OVERLAP_F_F\r\n"), true),
            "0F0,(0F1;0W0)OVERLAP_F_B,(0F2;0F3)OVERLAP_F_B\r\n");
}

TEST(Csv, ForPyTorchNoIdleSlotsWithTransfers) {  // its loader of files with communication asserts that there are none
  const std::string text = "0F0,0SEND_F0,,0RECV_B0,0B0\r\n,1RECV_F0,1F0,1B0,1SEND_B0\r\n";
  EXPECT_EQ(to_csv(read(text), false), text);
  EXPECT_EQ(to_csv(read(text), true), "0F0,0SEND_F0,0RECV_B0,0B0\r\n1RECV_F0,1F0,1B0,1SEND_B0\r\n");
  EXPECT_EQ(to_csv(read("0F0,,0B0\r\n"), true), "0F0,,0B0\r\n");
}

TEST(Csv, ForPyTorchWhatItCannotExpressIsRefused) {
  EXPECT_EQ(torch_refusal("0F0,0R0,0B0\n"), "error: PyTorch's CSV cannot express 0R0 (rank 0)");
  EXPECT_EQ(torch_refusal("0F0,0B0,OPT\n"), "error: PyTorch's CSV cannot express OPT (rank 0)");
  EXPECT_EQ(torch_refusal("0F0.0,0F0.1,0B0.1,0B0.0\n"),
            "error: PyTorch's CSV cannot express sequence splits (2 of them): its cells name no slice");
  EXPECT_EQ(torch_refusal("#chain 0\n#chain 1\n0F0,0B0\n1F0,1B0\n"),
            "error: PyTorch's CSV cannot express 2 chains, which hold every stage on 2 ranks: its stages form one chain, each on "
            "one rank");
  EXPECT_EQ(torch_refusal("#chain 1,0\n0F0,0B0\n1F0,1B0\n"),
            "error: PyTorch's CSV cannot express a chain whose stages are not numbered in its order");
}

}  // namespace
}  // namespace panpipe
