#include "jobs/shell/shell_pattern.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <string>

namespace panpipe::jobs {
namespace {

struct Case {
  const char *text, *pattern;
  bool matches;
};

TEST(ShellPattern, MatchesTheWholeText) {
  for (const Case& one : {Case{"", "", true},
                          Case{"", "*", true},
                          Case{"", "?", false},
                          Case{"a", "", false},
                          Case{"abc", "abc", true},
                          Case{"abc", "a*", true},
                          Case{"abc", "*b", false},
                          Case{"abcbc", "a*bc", true},
                          Case{"abcbd", "a*bc", false},
                          Case{"a*c", "a\\*c", true},
                          Case{"abc", "a\\*c", false},
                          Case{"a", "a\\", false},
                          Case{"a/b", "a*b", true},
                          Case{"b", "[a-c]", true},
                          Case{"d", "[a-c]", false},
                          Case{"-", "[b-d]", false},
                          Case{"d", "[!a-c]", true},
                          Case{"d", "[^d]", false},
                          Case{"]", "[]a]", true},
                          Case{"-", "[a-]", true},
                          Case{"-", "[a\\-z]", true},
                          Case{"b", "[a\\-z]", false},
                          Case{"7", "[[:digit:]]", true},
                          Case{"x", "[[:digit:]x]", true},
                          Case{"y", "[^[:alpha:]]", false},
                          Case{"16", "[[:print:]]*", true},
                          Case{"\t", "[[:graph:]]", false},
                          Case{"\t", "[[:cntrl:]]", true},
                          Case{"a", "[[=a=]]", true},
                          Case{"b", "[[=a=]-c]", false},  // no range: a, - and c
                          Case{"-", "[[=a=]-c]", true},
                          Case{"-", "[a[.-.]z]", true},
                          Case{"b", "[[.a.]-[.c.]]", true},
                          Case{"]", "[[.].]]", true},
                          Case{"[a]", "*[][:]*", true},
                          Case{"host:1", "*[a[:]?", true},
                          Case{"[", "[", true},
                          Case{"[a", "[a", true},
                          Case{"a", "[a", false},
                          Case{"aaaa", "**a**", true}})
    EXPECT_EQ(matches_pattern(one.text, one.pattern), one.matches) << one.text << " " << one.pattern;
}

TEST(ShellPattern, NamesOfCharactersAreNotFollowed) {
  for (const char* pattern : {"[[.hyphen.]]", "a*[!x[.space.]]", "[[=ab=]]"}) EXPECT_TRUE(names_character(pattern)) << pattern;
  for (const char* pattern : {"[[.-.]]", "[[=a=]b]", "[.]sh[.]", "[a].b.]", "\\[[.a", "[[.a"})
    EXPECT_FALSE(names_character(pattern)) << pattern;
}

// Python sets the user's locale, the command line none.
TEST(ShellPattern, ComparesBytesInEveryLocale) {
  for (const char* locale : {"C", "C.UTF-8"}) {
    if (std::setlocale(LC_CTYPE, locale) == nullptr) continue;
    EXPECT_FALSE(matches_pattern("\xC3\xA9", "?")) << locale;
    EXPECT_TRUE(matches_pattern("\xC3\xA9", "??")) << locale;
    EXPECT_TRUE(matches_pattern("\xC3\xA9", "[\xC3\xA9][\xA0-\xAF]")) << locale;
    EXPECT_TRUE(matches_pattern("\xFF", "?")) << locale;  // no character of UTF-8
  }
  std::setlocale(LC_CTYPE, "C");
}

// The work is that of the product of the lengths, which a search over all stars would exceed.
TEST(ShellPattern, EndsSoonWithManyStars) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(matches_pattern(std::string(2000, 'a'), pattern + "b"));
}

}  // namespace
}  // namespace panpipe::jobs
