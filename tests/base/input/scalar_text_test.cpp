#include "base/input/scalar_text.hpp"

#include <gtest/gtest.h>

#include "base/input/yaml_document.hpp"

namespace panpipe {
namespace {

std::string read_back(const std::string& scalar) { return parse_document("key: " + scalar, "text", "")->find("key")->text; }

TEST(ScalarText, IsReadBackAsItWas) {
  for (const char* text : {"plain words", "a \"quoted\" one", "back\\slash", "two\nlines", "a\ttab", "- item", "key: value",
                           "# no comment", " blank", "null", "---", "80 %", "[1, 2]", "{a: b}", "&anchor", "it's", ""}) {
    EXPECT_EQ(read_back(scalar_text(text)), text);
    EXPECT_EQ(read_back(quoted_scalar(text)), text);
  }
}

TEST(ScalarText, PlainWordsStandWithoutQuotes) {
  EXPECT_EQ(scalar_text("zero bubble/h1 80 %"), "zero bubble/h1 80 %");
  EXPECT_EQ(scalar_text("null"), "\"null\"");
  EXPECT_EQ(quoted_scalar("a\"b\\c\n"), "\"a\\\"b\\\\c\\n\"");
}

}  // namespace
}  // namespace panpipe
