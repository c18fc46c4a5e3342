// Files that are no schedule: each mistake with its whole message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "schedule/schedule.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

std::string error_of(const std::string& text) {
  return test::fault_of([&] { read_schedule_csv(text, "order.csv"); });
}

TEST(CsvErrors, TextAfterTheAction) {
  EXPECT_EQ(error_of("0F0,0B0\n1F0, 1B0junk\n"),
            "order.csv:2:9: error: cell 2, '1B0junk': 'junk' after the action 1B0\n"
            "    2 | 1F0, 1B0junk\n"
            "      |         ^\n"
            "  help: write 1B0");
}

TEST(CsvErrors, EachMistakeInACell) {
  struct Case {
    const char *cell, *message, *help;
  };
  for (const Case& c : {
           Case{"0X0", "1:2: error: cell 1, '0X0': unknown action 'X'",
                "actions are F, I, W, B, R, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD, OFFLOAD, RELOAD, OPT, "
                "SYNC, E, S, T, G"},
           Case{"F0", "1:1: error: cell 1, 'F0': F names no stage", "write the stage before it: 2F0"},
           Case{"0F", "1:3: error: cell 1, '0F': 0F names no microbatch", "write it after the letter: 0F0"},
           Case{"0UNSHARD3", "1:9: error: cell 1, '0UNSHARD3': UNSHARD takes no microbatch", "write 0UNSHARD"},
           Case{"0OPT", "1:1: error: cell 1, '0OPT': OPT takes no stage", "write OPT"},
           Case{"17", "1:3: error: cell 1, '17': '17' is no action",
                "an action is a stage, a pass and a microbatch, such as 2F0"},
           Case{"0F-1", "1:3: error: cell 1, '0F-1': 0F names no microbatch", "write it after the letter: 0F0"},
           Case{"0F0.5.1", "1:6: error: cell 1, '0F0.5.1': '.1' after the action 0F0.5", "write 0F0.5"},
           Case{"0F0@off=1", "1:4: error: cell 1, '0F0@off=1': attributes (@key=value) are not supported", ""},
           Case{"0F99999999999", "1:3: error: cell 1, '0F99999999999': microbatch 99999999999 is too large", ""},
           Case{"()OVERLAP_F_B", "1:2: error: cell 1, '()OVERLAP_F_B': an empty group", "write (0F1;3B0)OVERLAP_F_B"},
           Case{"(0F0;)OVERLAP_F_B", "1:6: error: cell 1, '(0F0;)OVERLAP_F_B': an empty member of a group",
                "write (0F1;3B0)OVERLAP_F_B"},
           Case{"(0F0)OVERLAP_F_B", "1:1: error: cell 1, '(0F0)OVERLAP_F_B': a group of one action", "write 0F0"},
           Case{"(0F0;0B1", "1:1: error: cell 1, '(0F0;0B1': a group without its closing bracket", "write (0F1;3B0)OVERLAP_F_B"},
           Case{"((0F0;0B1)OVERLAP)OVERLAP", "1:2: error: cell 1, '((0F0;0B1)OVERLAP)OVERLAP': a group inside a group", ""},
           Case{"(0F0;0B1)", "1:10: error: cell 1, '(0F0;0B1)': a group without its kind",
                "groups are OVERLAP_F_B, OVERLAP_F_W, OVERLAP_F_F, OVERLAP"},
           Case{"(0F0;0B1)OVERLAP_B_F", "1:10: error: cell 1, '(0F0;0B1)OVERLAP_B_F': unknown kind of group 'OVERLAP_B_F'",
                "groups are OVERLAP_F_B, OVERLAP_F_W, OVERLAP_F_F, OVERLAP"},
           Case{"(0F0;0SEND_F0)OVERLAP",
                "1:14: error: cell 1, '(0F0;0SEND_F0)OVERLAP': 0SEND_F0 in a group: only passes (F, I, W, B, R) overlap", ""},
       }) {
    const std::string text = error_of(c.cell);
    std::string expected = "order.csv:";
    expected += c.message;
    EXPECT_EQ(text.substr(0, text.find('\n')), expected);
    const std::size_t help = text.find("\n  help: ");
    EXPECT_EQ(help == std::string::npos ? "" : text.substr(help + 9), c.help) << c.cell;
  }
}

TEST(CsvErrors, WhatTheRowsShowTogether) {
  EXPECT_EQ(error_of("0F0,0B0,0F0\n"),
            "order.csv:1:9: error: cell 3, 0F0: occurs twice; the first is in cell 1\n"
            "    1 | 0F0,0B0,0F0\n"
            "      |         ^\n"
            "  help: every stage runs every pass of a microbatch once");
  EXPECT_EQ(error_of("0F0,0B0\n0F1,0B1\n"),
            "order.csv:2:1: error: cell 1, 0F1: stage 0 is already on rank 0 (line 1)\n"
            "    2 | 0F1,0B1\n"
            "      | ^\n"
            "  help: a stage lives on one rank: a row is a rank");
  EXPECT_EQ(error_of("0F0,0B0\n2F0,2B0\n"),
            "order.csv:1:1: error: no row has stage 1, but there is a stage 2\n"
            "    1 | 0F0,0B0\n"
            "      | ^\n"
            "  help: number stages from 0 without gaps");
  EXPECT_EQ(error_of("0F0,0BW0,0F1,0I1,0W1\n"),
            "order.csv:1:14: error: cell 4, 0I1: the file mixes the letters I and BW (line 1)\n"
            "    1 | 0F0,0BW0,0F1,0I1,0W1\n"
            "      |              ^\n"
            "  help: write I for the input gradient and B for the full backward everywhere");
  EXPECT_EQ(error_of("0F0,0B0\n\n1F0,1B0\n"),
            "order.csv:2:1: error: an empty line: every row is a rank, and every rank has actions\n"
            "    2 | \n"
            "      | ^\n"
            "  help: remove the line");
  EXPECT_EQ(error_of("0F0,0B0\n ,\n"),
            "order.csv:2:1: error: a row of empty cells: every row is a rank, and every rank has actions\n"
            "    2 |  ,\n"
            "      | ^\n"
            "  help: remove the line");
}

TEST(CsvErrors, HeaderLines) {
  const auto first_line = [](const std::string& text) {
    const std::string error = error_of(text);
    return error.substr(0, error.find('\n'));
  };
  const std::string rows = "0F0,0B0\n1F0,1B0\n";
  EXPECT_EQ(first_line("#pipeline ranks=3\n" + rows), "order.csv:1:1: error: the header states 3 ranks, the rows have 2");
  EXPECT_EQ(first_line("#pipeline stages=1\n" + rows), "order.csv:1:1: error: the header states 1 stages, the rows have 2");
  EXPECT_EQ(first_line("#pipeline microbatches=none\n" + rows),
            "order.csv:1:11: error: 'microbatches' of #pipeline must be a whole number from 1");
  EXPECT_EQ(first_line("#pipeline depth=2\n" + rows), "order.csv:1:11: error: unknown key 'depth' of #pipeline");
  EXPECT_EQ(first_line("#pipeline ranks=2 ranks=2\n" + rows), "order.csv:1:19: error: 'ranks' of #pipeline is given twice");
  EXPECT_EQ(first_line("#pipeline microbatches=1\n0F0,0F1,0B0,0B1\n"),
            "order.csv:2:5: error: cell 2, 0F1: microbatch 1 of 1: they are numbered from 0");
  EXPECT_EQ(first_line("#chain 0,1,2\n" + rows), "order.csv:1:1: error: no row has stage 2");
  EXPECT_EQ(first_line("#chain 0\n" + rows), "order.csv:1:1: error: no chain has stage 1");
  EXPECT_EQ(first_line("#chain 0,1\n#chain 1\n" + rows), "order.csv:2:1: error: stage 1 is in a chain already");
  EXPECT_EQ(first_line("#chain 0;1\n" + rows), "order.csv:1:8: error: '0;1' is no stage");
  EXPECT_EQ(first_line("#place 0,5\n" + rows), "order.csv:1:1: error: rank 5 of 2: ranks are numbered from 0");
  EXPECT_EQ(first_line("#plaice 0,1\n" + rows), "order.csv:1:1: error: unknown header line '#plaice'");
  EXPECT_EQ(first_line(rows + "#place 0,1\n"), "order.csv:3:1: error: a header line after the first row");
  EXPECT_EQ(first_line("#pipeline microbatches=900000000\n" + rows),
            "order.csv: error: 2 stages, 900000000 microbatches and 1 sequence splits need 1800000000 forwards, but the file has "
            "4 actions");
}

TEST(CsvErrors, NoSchedulesAtAll) {
  EXPECT_EQ(error_of(""),
            "order.csv: error: the file is empty\n  help: a schedule has a row of actions for each rank: 0F0,0F1,0B0,0B1");
  EXPECT_EQ(error_of("# nothing\n"),
            "order.csv: error: there are no rows\n  help: a schedule has a row of actions for each rank: 0F0,0F1,0B0,0B1");
  EXPECT_EQ(error_of(std::string("\x7f"
                                 "ELF\0\1",
                                 6)),
            "order.csv: error: this is a binary file, not text (control byte 0x7f on line 1)");
  EXPECT_EQ(test::fault_of([&] { load_schedule_csv("/no/such/file.csv"); }), "/no/such/file.csv: error: there is no such file");
  EXPECT_EQ(test::fault_of([&] { load_schedule_csv("/"); }), "/: error: this is a folder, not a file");
}

std::string error_of_file(const std::string& path) {
  return test::fault_of([&] { load_schedule_csv(path); });
}

TEST(CsvErrors, OtherEncodings) {
  EXPECT_EQ(error_of("0F0,0B0\n1F0,1B\xff"
                     "0\n"),
            "order.csv: error: this is not UTF-8 text (byte 0xff on line 2)\n  help: save the file as UTF-8");
  EXPECT_EQ(error_of(std::string("\xff\xfe"
                                 "0\0F\0000\0",
                                 8)),
            "order.csv: error: this is UTF-16 text\n  help: save the file as UTF-8");
  // Bytes that spreadsheets put in front are not part of the text.
  EXPECT_EQ(error_of("\xef\xbb\xbf"
                     "0F0,0X0\r\n1F0,1B0\r\n")
                .substr(0, 52),
            "order.csv:1:6: error: cell 2, '0X0': unknown action ");
}

// Letters of two bytes: the caret stands under the fault, and no message ends inside one.
TEST(CsvErrors, LettersBeyondAscii) {
  EXPECT_EQ(error_of("0F0,\"äöü\",0B0\n"),
            "order.csv:1:6: error: cell 2, 'äöü': 'äöü' is no action\n    1 | 0F0,\"äöü\",0B0\n"
            "      |      ^\n  help: an action is a stage, a pass and a microbatch, such as 2F0");
  std::string wide;
  for (int i = 0; i < 90; ++i) wide += "ä";
  for (const char* indent : {"", " ", "  "}) {
    const std::string shift = indent;
    const std::string text = error_of(shift + wide + ",0F0," + shift + wide + "\n");
    for (std::size_t at = 0; at < text.size(); at += utf8_length(text, at)) ASSERT_NE(utf8_length(text, at), 0u) << text;
  }
  EXPECT_EQ(error_of("0F\x1b[31m0\n").find('\x1b'), std::string::npos);  // a terminal would obey it
}

// An empty file that states a large size, and one without an end: reading stops at the limit.
TEST(CsvErrors, LongerThanAnySchedule) {
  const std::string path = test::scratch().file("sparse-order.csv");
  std::ofstream(path).put('0');
  std::filesystem::resize_file(path, (std::uintmax_t{256} << 20) + 1);
  EXPECT_EQ(error_of_file(path), path + ": error: the file is larger than 256 MiB");
  EXPECT_EQ(error_of_file("/dev/zero"), "/dev/zero: error: the file is larger than 256 MiB");
  std::filesystem::resize_file(path, 1000);
  EXPECT_EQ(error_of_file(path), path + ": error: this is a binary file, not text (a zero byte on line 1)");
}

// 4000 rows of 1500 actions are the 6 million that are taken; one more is too many, and the row is reported.
TEST(CsvErrors, MoreActionsThanMemoryHolds) {
  std::string row;
  for (int i = 0; i < 1500; ++i) row += "0F0,";
  row.back() = '\n';
  std::string text;
  for (int i = 0; i < 4000; ++i) text += row;
  EXPECT_EQ(error_of(text).substr(0, 45), "order.csv:2:1: error: cell 1, 0F0: stage 0 is");
  EXPECT_EQ(error_of(text + "0F0\n"),
            "order.csv: error: line 4001: more than 6 million actions, what 8 GB of memory hold\n"
            "  help: fewer microbatches, or fewer stages a rank");
}

TEST(CsvErrors, TwentyAtMost) {
  std::string row;
  for (int i = 0; i < 40; ++i) row += "0Q0,";
  EXPECT_EQ(test::diagnostics_of([&] { read_schedule_csv(row, "order.csv"); }).size(), 20u);
}

TEST(CsvErrors, LongRowsAreShownAroundTheFault) {
  std::string row;
  for (int i = 0; i < 40; ++i) row += "0F" + std::to_string(i) + ",";
  const std::string text = error_of(row + "0Q0," + row);
  const std::string line = text.substr(text.find('\n') + 1, text.find('\n', text.find('\n') + 1) - text.find('\n') - 1);
  EXPECT_LE(line.size(), 180u);
  EXPECT_THAT(line, testing::HasSubstr("..."));
  const std::size_t caret = text.find('^') - text.rfind('\n', text.find('^'));
  EXPECT_EQ(line.substr(caret - 1, 2), "Q0");
}

}  // namespace
}  // namespace panpipe
