// Small texts for people and spreadsheets.
#include <gtest/gtest.h>

#include "base/text/characters.hpp"
#include "base/text/csv_text.hpp"
#include "base/text/memory_text.hpp"
#include "base/text/percent.hpp"

namespace panpipe {
namespace {

TEST(PeopleText, CellsOfCsvAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(csv_cell("plain text"), "plain text");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(csv_cell("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(csv_cell("carriage\r"), "\"carriage\r\"");
}

TEST(PeopleText, SharesAndMemory) {
  EXPECT_EQ(percent(0.8512), "85.1 %");
  EXPECT_EQ(signed_percent(0.0149), "+1.5 %");
  EXPECT_EQ(memory_text(22.75 * (1 << 30)), "22.75 GiB");
  EXPECT_EQ(memory_text(-1536), "-1.50 KiB");  // 1.5 x 1024
  EXPECT_EQ(memory_text(1023), "1023 B");
  EXPECT_EQ(memory_scale(0.1 * (1 << 30)).text(0.1 * (1 << 30)), "0.1 GiB");  // the unit changes at a tenth
  EXPECT_EQ(memory_scale(100e6).text(50e6), "47.7 MiB");                      // 50e6 / 1048576 = 47.68
}

TEST(PeopleText, Characters) {
  EXPECT_EQ(utf8_length("a", 0), 1U);
  EXPECT_EQ(utf8_length("→", 0), 3U);
  EXPECT_EQ(utf8_length("→", 1), 0U);                 // in the middle of it
  EXPECT_EQ(utf8_length("\xF4\x90\x80\x80", 0), 0U);  // above U+10FFFF
  EXPECT_EQ(lower_case("C.UTF-8 Ä"), "c.utf-8 Ä");
}

}  // namespace
}  // namespace panpipe
