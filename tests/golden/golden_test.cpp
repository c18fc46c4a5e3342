// Did any prediction move? Every metric of every example, to 1e-6. A change that is meant is recorded by running this test with
// PANPIPE_UPDATE=1, and has a line in CHANGELOG.md under "Changed predictions".
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;

void expect_near(const json& now, const json& before, const std::string& where) {
  ASSERT_EQ(now.type_name(), before.type_name()) << where;
  if (before.is_object()) {
    for (const auto& [key, value] : before.items()) {
      ASSERT_TRUE(now.contains(key)) << where << "." << key;
      expect_near(now[key], value, where + "." + key);
    }
    EXPECT_EQ(now.size(), before.size()) << where << " has new keys";
  } else if (before.is_array()) {
    ASSERT_EQ(now.size(), before.size()) << where;
    for (std::size_t i = 0; i < before.size(); ++i) expect_near(now[i], before[i], where + "[" + std::to_string(i) + "]");
  } else if (before.is_number()) {
    const double old = before.get<double>();
    EXPECT_NEAR(now.get<double>(), old, 1e-6 * std::abs(old)) << where << " moved: see the head of this file";
  } else {
    EXPECT_EQ(now, before) << where;
  }
}

std::vector<std::string> examples() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("../scenarios/examples"))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, PredictsWhatItDid) {
  for (const std::string verb : {"estimate", "simulate"}) {
    json now = json::parse(answer_of(verb + " --json scenarios/examples/" + GetParam() + ".yaml"))["metrics"];
    // By the errors of compared runs.
    for (const char* key : {"step_time_p10_s", "step_time_p50_s", "step_time_p90_s"}) EXPECT_EQ(now.erase(key), 1U);
    for (const char* key : {"run_time_p10_s", "run_time_p90_s", "cost_p10", "cost_p90"}) now.erase(key);
    const std::string file = "golden/" + GetParam() + "." + verb + ".json";
    if (std::getenv("PANPIPE_UPDATE")) {
      write_file(file, now.dump(1) + "\n");
      continue;
    }
    ASSERT_TRUE(std::filesystem::exists(file)) << "a new example: run this test once with PANPIPE_UPDATE=1";
    expect_near(now, json::parse(read_file(file)), GetParam() + " " + verb);
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, Golden, testing::ValuesIn(examples()), [](const auto& example) {
  std::string name = example.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace panpipe::test
