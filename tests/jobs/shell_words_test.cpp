// Words as a shell would pass them, without running anything.
#include "jobs/shell_words.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

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

TEST(ShellWords, FaultsHavePlaces) {
  try {
    shell_words("--a 1\n  --b 'open", "job.sh");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "error: job.sh:2:7: the quote that begins here is not closed");
  }
  EXPECT_THROW(shell_words(std::string((1 << 20) + 1, 'a'), "job.sh"), InputError);
  EXPECT_THROW(shell_words("--a \xff", "job.sh"), InputError);
}

}  // namespace
}  // namespace panpipe::jobs
