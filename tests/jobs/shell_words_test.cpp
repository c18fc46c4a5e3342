// Words as a shell would pass them, without running anything.
#include "jobs/shell/shell_words.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/fault.hpp"

namespace panpipe::jobs {
namespace {

std::vector<std::string> texts(const std::string& text) {
  std::vector<std::string> words;
  for (const ShellWord& word : shell_words(text, "job.sh")) words.push_back(word.text);
  return words;
}

TEST(ShellWords, QuotesBackslashesCommentsAndLineEnds) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(texts("a  b\tc\n"), (Words{"a", "b", "c"}));
  EXPECT_EQ(texts("--a 'x y' --b \"1 \\\"2\\\"\""), (Words{"--a", "x y", "--b", "1 \"2\""}));
  EXPECT_EQ(texts("--a \\\n  1 \\\r\n --b 2"), (Words{"--a", "1", "--b", "2"}));
  EXPECT_EQ(texts("# a remark 'with a quote\n--a 1 # and --b 2\n--c a#b"), (Words{"--a", "1", "--c", "a#b"}));
  EXPECT_EQ(texts("a\\ b ''"), (Words{"a b", ""}));
  EXPECT_EQ(texts(""), Words{});
}

TEST(ShellWords, WhatAShellWouldExpandIsMarked) {
  const auto words = shell_words("$A \"x${B}\" '$C' \\$D `id`", "job.sh");
  ASSERT_EQ(words.size(), 5U);
  EXPECT_TRUE(words[0].expands);
  EXPECT_TRUE(words[1].expands);
  EXPECT_FALSE(words[2].expands);
  EXPECT_FALSE(words[3].expands);
  EXPECT_TRUE(words[4].expands);
  EXPECT_EQ(words[3].text, "$D");
}

// The brackets of bash's arrays are no words; those of a word are.
TEST(ShellWords, ArraysOfBash) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(texts("A=( --a 1 2 \n ) \n B+=(--b 3)\n--c"), (Words{"--a", "1", "2", "--b", "3", "--c"}));
  EXPECT_EQ(texts("--a ([0]*3+[1]*58) --b Et|(t*4)L '(x)' \")\" \\)"),
            (Words{"--a", "([0]*3+[1]*58)", "--b", "Et|(t*4)L", "(x)", ")", ")"}));
  EXPECT_EQ(texts("--a='x'=(1) 1a=(2) A='('"), (Words{"--a=x=(1)", "1a=(2)", "A=("}));
  const auto words = shell_words("A=( --a 1 ) declare B=(2 )", "job.sh");
  std::vector<bool> ends;
  for (const ShellWord& word : words) ends.push_back(word.after_array);
  EXPECT_EQ(ends, (std::vector<bool>{true, false, true, true}));  // --a, 1, declare, 2
}

TEST(ShellWords, FaultsHavePlaces) {
  EXPECT_EQ(test::fault_of([&] { shell_words("--a 1\n  --b 'open", "job.sh"); }),
            "error: job.sh:2:7: the quote that begins here is not closed");
  EXPECT_THROW(shell_words(std::string((1 << 20) + 1, 'a'), "job.sh"), InputError);
  EXPECT_THROW(shell_words("--a \xff", "job.sh"), InputError);
}

}  // namespace
}  // namespace panpipe::jobs
