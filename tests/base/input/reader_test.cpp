#include "base/input/reader.hpp"
#include "tests/fault.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace panpipe {
namespace {

using testing::HasSubstr;

class Reader : public testing::Test {
 protected:
  MapReader open(const std::string& text) {
    root_ = parse_document(text, "a.yaml", "");
    return MapReader(*root_, log_);
  }
  std::string faults() const {
    return test::fault_of([&] { log_.throw_if_errors(); });
  }
  std::string origin(const std::string& path) const {
    for (const ResolvedValue& value : log_.resolved_values())
      if (value.path == path) return value.value + " # " + value.origin;
    return "not recorded";
  }
  NodePtr root_;
  ReadLog log_;
};

TEST_F(Reader, ReadsEveryType) {
  MapReader map = open(
      "time: 5 us\nsize: 24 GiB\nrate: 25 GB/s\nspeed: 71 TFLOP/s\nshare: 85 %\nfactor: 1.5\ncount: 3\nflag: true\nname: x y\n"
      "kind: blue\n");
  EXPECT_EQ(map.duration("time"), micros(5));
  EXPECT_EQ(map.bytes("size"), gib(24));
  EXPECT_EQ(map.bandwidth("rate"), gb_per_s(25));
  EXPECT_EQ(map.compute_rate("speed"), tflops_per_s(71));
  EXPECT_DOUBLE_EQ(map.fraction("share"), 0.85);
  EXPECT_EQ(map.number("factor"), 1.5);
  EXPECT_EQ(map.integer("count", 1), 3);
  EXPECT_TRUE(map.boolean("flag"));
  EXPECT_EQ(map.string("name"), "x y");
  EXPECT_EQ(map.choice<int>("kind", {{"red", 1}, {"blue", 2}}), 2);
  map.finish();
  EXPECT_EQ(faults(), "");
  EXPECT_EQ(origin("size"), "24 GiB # a.yaml:2");
  EXPECT_EQ(origin("kind"), "blue # a.yaml:10");
}

TEST_F(Reader, DefaultsAreUsedAndRecorded) {
  MapReader map = open("{}");
  EXPECT_EQ(map.duration("time", Sign::NonNegative, micros(5)), micros(5));
  EXPECT_EQ(map.bytes("size", Sign::NonNegative, gib(24)), gib(24));
  EXPECT_TRUE(std::isinf(map.bandwidth("rate", Sign::Positive, Bandwidth(INFINITY)).base()));
  EXPECT_EQ(map.fraction("share", 1.0), 1.0);
  EXPECT_EQ(map.integer("count", 1, 3), 3);
  EXPECT_FALSE(map.boolean("flag", false));
  EXPECT_EQ(map.string("name", "x"), "x");
  EXPECT_EQ(map.choice<int>("kind", {{"red", 1}, {"blue", 2}}, 2), 2);
  map.finish();
  EXPECT_EQ(faults(), "");
  EXPECT_EQ(origin("time"), "5 us # default");
  EXPECT_EQ(origin("rate"), "unlimited # default");
  EXPECT_EQ(origin("share"), "100 % # default");
  EXPECT_EQ(origin("kind"), "blue # default");
}

TEST_F(Reader, MissingKeysInOneComplaint) {
  MapReader map = open("b: {c: 1}");
  MapReader inner(*map.find("b"), log_);
  EXPECT_EQ(inner.integer("x", 2), 2);
  EXPECT_EQ(inner.bytes("y"), bytes(0));
  inner.find("c");
  inner.finish();
  EXPECT_EQ(faults(),
            "a.yaml:1:4: error: missing keys 'x' and 'y'\n"
            "  at b\n"
            "    1 | b: {c: 1}\n"
            "      |    ^\n"
            "  help: the only key here is 'c'");
}

TEST_F(Reader, UnknownKeysSuggestWhatIsStillMissing) {
  MapReader map = open("{memroy: 80 GiB, flops: 989, zzz: 1}");
  map.bytes("memory");
  map.compute_rate("compute", Sign::Positive, tflops_per_s(1));
  map.finish();
  EXPECT_EQ(faults(),
            "a.yaml:1:2: error: unknown key 'memroy', did you mean 'memory'?\n"
            "  at memroy\n"
            "    1 | {memroy: 80 GiB, flops: 989, zzz: 1}\n"
            "      |  ^\n"
            "a.yaml:1:18: error: unknown key 'flops'\n"
            "  at flops\n"
            "    1 | {memroy: 80 GiB, flops: 989, zzz: 1}\n"
            "      |                  ^\n"
            "  help: known here: memory and compute\n"
            "a.yaml:1:30: error: unknown key 'zzz'\n"
            "  at zzz\n"
            "    1 | {memroy: 80 GiB, flops: 989, zzz: 1}\n"
            "      |                              ^");
}

// A caller acts on the code and the override, not on the message.
TEST_F(Reader, UnknownKeysHaveACodeAndFaultsOfOverridesTheirAssignment) {
  root_ = parse_document("{a: 1, unknown: 2}", "a.yaml", "");
  apply_override(*root_, "zzz=3");
  MapReader map(*root_, log_);
  EXPECT_EQ(map.integer("a", 2), 2);  // a fault of another kind: below the limit
  map.finish();
  const std::vector<Diagnostic> faults = test::diagnostics_of([&] { log_.throw_if_errors(); });
  ASSERT_EQ(faults.size(), 3u);
  const Diagnostic &limit = faults[0], &in_file = faults[1], &override_fault = faults[2];
  EXPECT_EQ(limit.code, "out-of-range");
  EXPECT_EQ(in_file.code, "unknown-key");
  EXPECT_EQ(in_file.key, "unknown");
  EXPECT_EQ(in_file.place, "a.yaml:1:8");
  EXPECT_EQ(in_file.override_text, "");
  EXPECT_EQ(override_fault.code, "unknown-key");
  EXPECT_EQ(override_fault.place, "--set zzz=3");
  EXPECT_EQ(override_fault.override_text, "zzz=3");
  Diagnostic shown = override_fault;
  shown.place = "--over zzz=3";
  EXPECT_TRUE(shown.text().starts_with("--over zzz=3: error: unknown key 'zzz'\n"));
}

TEST_F(Reader, LimitsAreNamed) {
  MapReader map = open("{a: -1 s, b: 0 GB/s, c: 0, d: -3, e: 101 %}");
  EXPECT_EQ(map.duration("a", Sign::NonNegative, seconds(7)), seconds(7)) << "after a fault the fallback is returned";
  map.bandwidth("b");
  map.integer("c", 1);
  map.integer("d", 0);
  map.fraction("e");
  map.finish();
  const std::string text = faults();
  EXPECT_THAT(text, HasSubstr("'-1 s' must not be negative"));
  EXPECT_THAT(text, HasSubstr("'0 GB/s' must be positive"));
  EXPECT_THAT(text, HasSubstr("'0' must be at least 1"));
  EXPECT_THAT(text, HasSubstr("'-3' must not be negative"));
  EXPECT_THAT(text, HasSubstr("'101 %' must be between 0 % and 100 %"));
}

TEST_F(Reader, WhatIsNoMapComplainsOnce) {
  MapReader map = open("[1, 2]");
  EXPECT_EQ(map.integer("x", 1), 1);
  EXPECT_FALSE(map.has("x"));
  map.finish();
  EXPECT_EQ(faults(),
            "a.yaml:1:1: error: expected a map ('key: value'), found a list\n"
            "    1 | [1, 2]\n"
            "      | ^");
}

TEST_F(Reader, AtMostTwentyFaultsSortedByPlaceWithoutRepetition) {
  MapReader map = open("b: 2\na: 1\n");
  log_.error(*map.find("a"), "second");
  log_.error(*map.find("b"), "first");
  log_.error(*map.find("b"), "first");
  EXPECT_EQ(faults(),
            "a.yaml:1:4: error: first\n  at b\n    1 | b: 2\n      |    ^\n"
            "a.yaml:2:4: error: second\n  at a\n    2 | a: 1\n      |    ^");
  for (int i = 0; i < 50; ++i) log_.error(*map.find("a"), "fault " + std::to_string(i));
  EXPECT_EQ(test::diagnostics_of([&] { log_.throw_if_errors(); }).size(), 20u);
}

// Of very many faults the first twenty are looked for, and no more.
TEST_F(Reader, OfVeryManyUnknownKeysTheFirstAreReported) {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += "key" + std::to_string(i) + "x: 1\n";
  const NodePtr root = parse_document(text, "many.yaml", "");
  ReadLog log;
  MapReader reader(*root, log);
  reader.find("entirely_other");
  reader.finish();
  const std::vector<Diagnostic> faults = test::diagnostics_of([&] { log.throw_if_errors(); });
  ASSERT_EQ(faults.size(), 20U);
  EXPECT_EQ(faults.back().message, "unknown key 'key19x'");
}

TEST_F(Reader, ListsInWords) {
  EXPECT_EQ(list_of({}), "");
  EXPECT_EQ(list_of({"a"}), "a");
  EXPECT_EQ(list_of({"a", "b"}), "a and b");
  EXPECT_EQ(list_of({"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace panpipe
