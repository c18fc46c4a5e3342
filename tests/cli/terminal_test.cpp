// Output on a terminal: its width, its characters, no control codes where it knows none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/text/rate_text.hpp"
#include "base/text/text_style.hpp"
#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";
const std::string kNoBridge = "scenarios/examples/gpt2-large-rtx3090x8-nobridge.yaml";

// A terminal ends its lines with "\r\n".
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

TEST(TextStyle, LinesAreBrokenBetweenWords) {
  EXPECT_EQ(wrapped("one two three\n", 0), "one two three\n");
  EXPECT_EQ(wrapped("one two three\n", 13), "one two three\n");
  EXPECT_EQ(wrapped("one two three\n", 12), "one two\nthree\n");
  EXPECT_EQ(wrapped("  one two three", 9), "  one two\n  three") << "under its own text";
  EXPECT_EQ(wrapped("name  one two three", 13, 6), "name  one two\n      three");
  EXPECT_EQ(wrapped("a unbreakable-word b", 8), "a\nunbreakable-word\nb");
  EXPECT_EQ(wrapped("one\n\ntwo", 3), "one\n\ntwo");
  // Three characters of two bytes each, and a colour of none.
  EXPECT_EQ(columns_of("\xC2\xB7\xC2\xB7\xC2\xB7"), 3u);
  EXPECT_EQ(columns_of("\x1b[32mab\x1b[0m"), 2u);
  EXPECT_EQ(wrapped("\x1b[32mab\x1b[0m cd", 5), "\x1b[32mab\x1b[0m cd");
}

TEST(TextStyle, NamesAreShortenedInTheMiddle) {
  EXPECT_EQ(shortened("node0.gpu3", 10), "node0.gpu3");
  EXPECT_EQ(shortened("transformer.h.0", 11), "tran....h.0") << "eight columns are left: four and four";
}

// Four digits, no exponent: 1.168e+04 was what people had to read.
TEST(RateText, HasNoExponent) {
  EXPECT_EQ(rate_text(11680.4), "11,680");
  EXPECT_EQ(rate_text(1234567.0), "1,234,567");
  EXPECT_EQ(rate_text(1000.0), "1,000");
  EXPECT_EQ(rate_text(999.96), "1,000");
  EXPECT_EQ(rate_text(999.94), "999.9");
  EXPECT_EQ(rate_text(8.2504), "8.25");
  EXPECT_EQ(rate_text(0.02144), "0.02144");
  // 2.5 samples of 1,024 tokens a second.
  EXPECT_EQ(rates_text(2.5, 1024, 0.451), "2.5 samples/s, 2,560 tokens/s, MFU 45.1 %");
  EXPECT_EQ(rates_text(2.5, 0, 0), "2.5 samples/s");
  EXPECT_EQ(rates_text(0, 1024, 0), "");
}

TEST(Terminal, NoLineIsWiderThanIt) {
  for (const int columns : {40, 60, 80, 132})
    for (const std::string& arguments :
         {"estimate " + kGpt2, "simulate --backend flow " + kNoBridge, "plan --method pfeife " + kGpt2,
          "sweep --over batch.micro=1,2 " + kGpt2, std::string("list schedules")}) {
      const Outcome run = panpipe_on_terminal(arguments + " 2>/dev/null", columns);
      ASSERT_EQ(run.exit_code, 0) << run.out;
      for (const std::string& line : lines_of(run.out)) {
        if (line.find(' ', line.find_first_not_of(' ')) == std::string::npos) continue;  // a single word stays whole
        EXPECT_LE(columns_of(line), static_cast<std::size_t>(columns)) << arguments << "\n" << line;
      }
    }
  // The most important columns stay.
  const std::string narrow = panpipe_on_terminal("estimate " + kGpt2 + " 2>/dev/null", 50, "NO_COLOR=1").out;
  EXPECT_THAT(narrow, HasSubstr("  rank   compute   exposed  bubble  peak GiB  fits\r\n"));
}

TEST(Terminal, WhatIsNoTerminalGetsWholeLines) {
  const Outcome run = panpipe("estimate " + kGpt2);
  EXPECT_THAT(run.out, HasSubstr("  rank  device      ends   compute   exposed  bubble  in span  peak GiB  fits\n"));
}

TEST(Terminal, ADumbOneGetsNoControlCodes) {
  for (const std::string& arguments :
       {"estimate " + kGpt2, "plan --method pfeife " + kGpt2, "sweep --over batch.micro=1,2 " + kGpt2}) {
    const std::string dumb = panpipe_on_terminal(arguments, 100, "TERM=dumb").out;
    EXPECT_THAT(dumb, Not(HasSubstr("\x1b"))) << arguments;
    for (std::size_t at = dumb.find('\r'); at != std::string::npos; at = dumb.find('\r', at + 1))
      EXPECT_EQ(dumb.substr(at, 2), "\r\n") << arguments;
  }
  EXPECT_THAT(panpipe_on_terminal("estimate " + kGpt2, 100).out, HasSubstr("\x1b[1m"));
}

TEST(Terminal, OfAnotherLocaleItGetsBarsInAscii) {
  const auto ascii = [](const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  };
  const std::string plain = panpipe_after("LC_ALL=C", "estimate " + kGpt2).out;
  EXPECT_TRUE(ascii(plain)) << plain;
  EXPECT_THAT(plain, testing::ContainsRegex("\n  compute +#+\\.+ "));
  EXPECT_TRUE(ascii(panpipe_after("LC_ALL= LC_CTYPE= LANG=de_DE.ISO-8859-1", "estimate " + kGpt2).out));
  EXPECT_FALSE(ascii(panpipe_after("LC_ALL= LC_CTYPE= LANG=de_DE.UTF-8", "estimate " + kGpt2).out));
  EXPECT_FALSE(ascii(panpipe_after("LC_ALL= LC_CTYPE= LANG=", "estimate " + kGpt2).out)) << "as in many containers";
  // Files do not depend on where they were made.
  const std::string folder = temporary_folder();
  panpipe_after("LC_ALL=C", "estimate " + kGpt2 + " -o " + folder);
  EXPECT_FALSE(ascii(read_file(folder + "/report.txt")));
}

}  // namespace
}  // namespace panpipe::test
