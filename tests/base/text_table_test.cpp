#include "base/text/text_table.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace panpipe {
namespace {

TEST(TextTable, ColumnsAreAsWideAsWhatStandsInThem) {
  TextTable table({"<name", "time", "<note"});
  table.row({"a", "1.5 ms", "first"});
  table.row({"longer", "12 s"});
  table.line("--");
  table.row({"b"});
  EXPECT_EQ(table.text(),
            "  name      time  note\n"
            "  a       1.5 ms  first\n"
            "  longer    12 s\n"  // no blanks at the end
            "--\n"
            "  b\n");
}

TEST(TextTable, CountsCharactersNotBytesAndNoColours) {
  TextTable table({"<", TextColumn("").least(4)}, 0);
  table.row({"µs→", "1"});
  table.row({"\x1b[32mabcd\x1b[0m", "\x1b[1m22\x1b[0m"});
  EXPECT_EQ(table.text(),
            "µs→      1\n"  // three characters, one blank, the gap, three blanks before the figure
            "\x1b[32mabcd\x1b[0m    \x1b[1m22\x1b[0m\n");
}

TEST(TextTable, HeadsAreBoldWhereThereIsColour) {
  TextTable table({"a", "b"}, 0);
  table.row({"10", "20"});
  EXPECT_EQ(table.text({.color = true}), "\x1b[1m a   b\x1b[0m\n10  20\n");
}

TEST(TextTable, LeavesOutTheLeastTellingColumnsWhereTheTerminalIsNarrow) {
  TextTable table({"rank", TextColumn("ends").importance(1), TextColumn("peak").importance(2)}, 0);
  table.row({"0", "11", "22"});
  EXPECT_EQ(table.text({.width = 16}), "rank  ends  peak\n   0    11    22\n");
  EXPECT_EQ(table.text({.width = 15}), "rank  peak\n   0    22\n");
  EXPECT_EQ(table.text({.width = 9}), "rank\n   0\n");
  EXPECT_EQ(table.text({.width = 2}), "rank\n   0\n");  // a column without a number stays
}

TEST(TextTable, ShortensWhatMayShrinkOnceTheRestIsLeftOut) {
  TextTable table({TextColumn("<link").shrinks_to(9), "lost", TextColumn("busy").importance(1)}, 0);
  table.row({"node0.socket1.out", "1 ms", "2 ms"});
  EXPECT_EQ(table.text({.width = 40}), "link               lost  busy\nnode0.socket1.out  1 ms  2 ms\n");
  EXPECT_EQ(table.text({.width = 23}), "link               lost\nnode0.socket1.out  1 ms\n");
  EXPECT_EQ(table.text({.width = 17}), "link         lost\nnode....out  1 ms\n");  // 17 - 6 = 11 columns for the name
  EXPECT_EQ(table.text({.width = 10}), "link       lost\nnod...out  1 ms\n");      // not less than 9
}

TEST(TextTable, WordsInTheLastColumnGoOnBelowThemselves) {
  TextTable table({"<", "<"});
  table.row({"gpipe", "all forward passes, then all backward passes"});
  table.row({"", "source: a paper"});
  EXPECT_EQ(table.text({.width = 40}),
            "  gpipe  all forward passes, then all\n"
            "         backward passes\n"
            "         source: a paper\n");
}

TEST(TextTable, MoreCellsThanColumnsAreABug) {
  TextTable table({"a"});
  EXPECT_THROW(table.row({"1", "2"}), InternalError);
}

}  // namespace
}  // namespace panpipe
