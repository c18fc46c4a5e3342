#include "base/text/json_writer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace panpipe {
namespace {

TEST(JsonWriter, EveryKindOfValue) {
  JsonWriter out;
  out.object().field("text", "a").field("true", true).field("whole", std::int64_t{-3}).field("number", 3.0);
  out.field("none", nullptr).field("empty", std::optional<int>()).field("given", std::optional<std::string>("b"));
  out.field("list", std::vector<std::vector<int>>{{1, 2}, {}}).end();
  EXPECT_EQ(
      out.finish(),
      "{\"text\": \"a\", \"true\": true, \"whole\": -3, \"number\": 3.0, \"none\": null, \"empty\": null, \"given\": \"b\", "
      "\"list\": [[1, 2], []]}");
}

TEST(JsonWriter, Layouts) {
  JsonWriter out;
  out.object(JsonLayout::Lines).list("rows", JsonLayout::Lines);
  for (const int i : {1, 2}) out.object().field("i", i).end();
  out.end().list("nothing", JsonLayout::Lines).end();
  out.list("flush", JsonLayout::Flush).value(1).value(2).end();
  out.object("dense", JsonLayout::Dense).list("inside", JsonLayout::Lines).value(1).value(2).end().end();
  // A list in lines inside what stands on one line goes on from the line's own indentation.
  out.object("line").list("inside", JsonLayout::Lines).value(1).end().end().end();
  EXPECT_EQ(out.finish(),
            "{\n"
            "  \"rows\": [\n"
            "    {\"i\": 1},\n"
            "    {\"i\": 2}\n"
            "  ],\n"
            "  \"nothing\": [],\n"
            "  \"flush\": [\n"
            "1,\n"
            "2\n"
            "],\n"
            "  \"dense\": {\"inside\":[1,2]},\n"
            "  \"line\": {\"inside\": [\n"
            "    1\n"
            "  ]}\n"
            "}");
}

TEST(JsonWriter, NumbersReadBackTheSame) {
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(-2), "-2.0");
  EXPECT_EQ(json_number(1e-5), "1e-05");
  EXPECT_EQ(json_number(1e22), "1e+22");
  for (const double none : {std::nan(""), HUGE_VAL, -HUGE_VAL}) EXPECT_EQ(json_number(none), "null");
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t bits = random();
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    if (!std::isfinite(number)) continue;
    EXPECT_EQ(nlohmann::json::parse(json_number(number)).get<double>(), number) << json_number(number);
  }
  // Small documents are dumped by nlohmann: the same number is the same text.
  for (const double number : {0.1, 1.0 / 3, 0.0001, 1e-5, 123456789.25, 5e-324, std::numeric_limits<double>::max()})
    EXPECT_EQ(nlohmann::json(number).dump(), json_number(number));
}

TEST(JsonWriter, TextIsEscaped) {
  std::string all;
  for (int c = 0; c < 0x80; ++c) all += static_cast<char>(c);
  all += "ü→\xF0\x9F\x98\x80";
  EXPECT_EQ(json_text(all), nlohmann::json(all).dump());
  EXPECT_EQ(nlohmann::json::parse(json_text(all)).get<std::string>(), all);
  // Bytes that are no UTF-8, one by one: a lone continuation, a cut character, an overlong zero, a surrogate.
  EXPECT_EQ(json_text("a\x80z"), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(json_text("\xE2\x86"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(json_text("\xC0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_NO_THROW(nlohmann::json::parse(json_text("\xED\xA0\x80")));
}

TEST(JsonWriter, WrongUseThrows) {
  const auto throws = [](auto use) {
    JsonWriter out;
    EXPECT_THROW(use(out), InternalError);
  };
  throws([](JsonWriter& out) { out.finish(); });                    // nothing written
  throws([](JsonWriter& out) { out.object().finish(); });           // still open
  throws([](JsonWriter& out) { out.end(); });                       // nothing to close
  throws([](JsonWriter& out) { out.value(1).value(2); });           // two documents
  throws([](JsonWriter& out) { out.object().value(1); });           // no key
  throws([](JsonWriter& out) { out.object().object(); });           // no key
  throws([](JsonWriter& out) { out.object().key("a").key("b"); });  // no value
  throws([](JsonWriter& out) { out.object().key("a").end(); });     // no value
  throws([](JsonWriter& out) { out.list().key("a"); });             // keys are for objects
  throws([](JsonWriter& out) { out.key("a"); });
  throws([](JsonWriter& out) { out.object().end().field("a", 1); });  // behind the end
}

}  // namespace
}  // namespace panpipe
