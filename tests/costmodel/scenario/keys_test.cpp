// The declared keys of a scenario: what readers accept is declared, and every declaration is whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "base/input/bound_key.hpp"
#include "base/input/shipped.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/scenario/scenario_keys.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

void for_each_key(const Key& key, const std::string& path, const std::function<void(const Key&, const std::string&)>& visit) {
  for (const Key& item : key.items) for_each_key(item, path + "[]", visit);
  for (const Key& inner : key.keys) {
    const std::string inner_path = path.empty() ? inner.name : path + "." + inner.name;
    visit(inner, inner_path);
    for_each_key(inner, inner_path, visit);
  }
}

TEST(ScenarioKeys, StateWhatTheyAreAndMean) {
  int keys = 0;
  for_each_key(scenario_keys(), "", [&](const Key& key, const std::string& path) {
    ++keys;
    EXPECT_FALSE(key.meaning.empty()) << path;
    EXPECT_TRUE(!key.forms.empty() || !key.words.empty() || !key.items.empty() || !key.keys.empty() || key.open) << path;
    EXPECT_TRUE(key.fallback.empty() || !key.required) << path;
  });
  EXPECT_GT(keys, 200);
}

TEST(ScenarioKeys, StandOnceInTheirMap) {
  const auto check = [](const Key& map, const std::string& path) {
    std::set<std::string> names;
    for (const Key& key : map.keys) EXPECT_TRUE(names.insert(key.name).second) << path << " " << key.name;
  };
  check(scenario_keys(), "");
  for_each_key(scenario_keys(), "", check);
}

TEST(ScenarioKeys, AreFoundByPath) {
  ASSERT_NE(scenario_keys().at("optimizer.groups[1].match"), nullptr);
  EXPECT_EQ(scenario_keys().at("optimizer.groups[1].match")->name, "match");
  EXPECT_EQ(scenario_keys().at("optimizer.groups[1].mach"), nullptr);
  EXPECT_EQ(scenario_keys().at("seed.seed"), nullptr);
  EXPECT_EQ(scenario_keys().at("")->find("seed")->fallback, "0");
}

// A reader cannot accept what nothing declares.
TEST(ScenarioKeys, ReadersLookForDeclaredKeysOnly) {
  const NodePtr document = parse_document("seed: 1\nsneed: 2\n", "keys.yaml", "");
  ReadLog log(&scenario_keys());
  MapReader reader(*document, log);
  EXPECT_EQ(reader.integer("seed", 0), 1);
  EXPECT_THROW(reader.integer("sneed", 0), InternalError);
}

// The readers of clusters and devices look for declared keys only, too: a scenario may state all of them.
TEST(ScenarioKeys, ShippedClustersAreDeclared) {
  const std::vector<std::string> names = shipped_names("clusters");
  EXPECT_GT(names.size(), 5u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const std::string text =
        "panpipe: 1\ncluster: " + name + "\nworkload: {model: gpt2-large}\nbatch: {micro: 1, microbatches: 4}\n";
    EXPECT_NO_THROW(parse_scenario(text + "parallel: {pipeline: 1}\n", "keys.yaml", ""));
  }
}

struct Held {
  int count = 3;
  double share = 0.5;
  std::optional<Bytes> size;
  int limit = 0;  // not limited
  bool loud = false;
};

const std::vector<BoundKey<Held>>& held_rows() {
  static const std::vector<BoundKey<Held>> rows = {bound(&Held::count, "count", "", form::whole(1)),
                                                   bound(&Held::share, "share", "", form::share()),
                                                   bound(&Held::size, "size", "", Otherwise{"any"}),
                                                   bound_if_stated(&Held::limit, "limit", "", form::whole(1), Otherwise{"none"}),
                                                   bound(&Held::loud, {{"quiet", false}, {"loud", true}}, "voice", "")};
  return rows;
}

TEST(BoundKeys, TakeFormAndDefaultFromTheirMember) {
  EXPECT_EQ(held_rows()[0].fallback, "3");
  EXPECT_EQ(held_rows()[1].fallback, "50 %");
  EXPECT_EQ(held_rows()[2].fallback, "");
  EXPECT_EQ(held_rows()[2].forms.front().kind, ValueForm::Size);
  EXPECT_EQ(held_rows()[3].fallback, "");
  EXPECT_EQ(held_rows()[4].fallback, "quiet");
  EXPECT_THAT(held_rows()[4].words, testing::ElementsAre("quiet", "loud"));
}

TEST(BoundKeys, ReadWhatIsStatedAndRecordDefaults) {
  const NodePtr document = parse_document("share: 20 %\nsize: 1 GiB\nvoice: loud\n", "held.yaml", "");
  const Key map = {.keys = declared(held_rows())};
  ReadLog log(&map);
  MapReader reader(*document, log);
  Held held;
  read_keys(reader, held_rows(), held);
  reader.finish();
  log.throw_if_errors();
  EXPECT_EQ(held.count, 3);
  EXPECT_EQ(held.share, 0.2);
  EXPECT_EQ(held.size, gib(1));
  EXPECT_EQ(held.limit, 0);
  EXPECT_TRUE(held.loud);
  std::string defaults;
  for (const ResolvedValue& value : log.resolved_values())
    if (value.origin == "default") defaults += value.path + ": " + value.value + "\n";
  EXPECT_EQ(defaults, "count: 3\n");
}

}  // namespace
}  // namespace panpipe
