// Files that are no schedule: bytes, sizes and how a row is shown. Mistakes in cells and headers stand in tests/input_errors.
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

TEST(CsvErrors, NoSchedulesAtAll) {
  EXPECT_EQ(error_of(""),
            "order.csv: error: the file is empty\n  help: a schedule has a row of actions for each rank: 0F0,0F1,0B0,0B1");
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
