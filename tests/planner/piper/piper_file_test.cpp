// Reading Piper's format: what comes out, what is refused, what is warned of.
#include "planner/piper/piper_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "planner/planner.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::planner::piper {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PiperFormat : public testing::Test {
 protected:
  PiperFile read(const std::string& text) { return read_piper_file(folder_.write("in.json", text)); }
  std::string path() const { return folder_.file("in.json"); }

  // The first line of what reading complains of, without the folder.
  std::string fault(const std::string& text) {
    std::string all;
    for (const Diagnostic& d : test::diagnostics_of([&] { read(text); }))
      all += (all.empty() ? "" : "\n") +
             d.text().substr(folder_.path().string().size() + 1, d.text().find('\n') - folder_.path().string().size() - 1);
    return all;
  }

  Experiment experiment(const ImportOptions& options, const PiperFile& file, const std::vector<std::string>& overrides = {}) {
    const Imported imported = import_piper(file, options, "layers.yaml");
    folder_.write("layers.yaml", imported.layers);
    return Experiment(parse_scenario(imported.scenario, "in.yaml", folder_.path().string(), overrides));
  }

  const test::TemporaryFolder folder_;
};

SearchOptions with_piper() {
  SearchOptions options;
  options.method = Method::Piper;
  return options;
}

std::string profile(double time, double parameters, double a, double b, const std::string& fw, const std::string& bw,
                    const std::string& id = "vanilla") {
  return R"({"id": ")" + id + R"(", "timePerSample": )" + std::to_string(time) + R"(, "parameterSize": )" +
         std::to_string(parameters) + R"(, "memoryUsageA": )" + std::to_string(a) + R"(, "memoryUsageB": )" + std::to_string(b) +
         R"(, "syncTimeFw": {)" + fw + R"(}, "syncTimeBw": {)" + bw + "}}";
}

// Two layers that feed one another, listed the wrong way round.
std::string two_nodes(const std::string& head, const std::string& edges, const std::string& fw = "\"7\": 0.0",
                      const std::string& bw = "\"9\": 16.0") {
  return "{" + head + "\"nodes\": [\n{\"id\": 9, \"name\": \"layer\", \"TMPCs\": {\"1\": [" + profile(3, 10, 5, 20, fw, "") +
         ", " + profile(4, 10, 1, 21, fw, "", "activation recomp") +
         "]}},\n{\"id\": 7, \"name\": \"layer\", \"TMPCs\": {\"1\": [" + profile(2, 10, 5, 20, "", bw) + "]}}],\n\"edges\": [" +
         edges + "]}\n";
}

const char* const kEdge = R"({"sourceId": 7, "destId": 9, "communicationCost": 100})";
const char* const kHead = R"("maxDevices": 2, "maxMemoryPerDevice": 1000.0, "bandwidth": 50.0, "mbsInBatch": 4, )";

TEST_F(PiperFormat, BecomesLayersInTopologicalOrder) {
  const PiperFile file = read(two_nodes(kHead, kEdge));
  const Imported imported = import_piper(file, {}, "layers.yaml");
  EXPECT_EQ(
      imported.layers.substr(imported.layers.find("layers:")),
      "layers:\n"
      "- name: \"layer.7\"\n  profiles:\n"
      "  - {tensor: 1, name: \"vanilla\", time: 2 s, parameters: 10 B, in_flight: 5 B, fixed: 20 B, send: {\"layer.9\": 16 B}}\n"
      "- name: \"layer.9\"\n  profiles:\n"
      "  - {tensor: 1, name: \"vanilla\", time: 3 s, parameters: 10 B, in_flight: 5 B, fixed: 20 B}\n"
      "  - {tensor: 1, name: \"activation recomp\", recompute: true, time: 4 s, parameters: 10 B, in_flight: 1 B, fixed: 21 B}\n"
      "edges:\n"
      "- {from: \"layer.7\", to: \"layer.9\", bytes: 100 B}\n");
  EXPECT_THAT(imported.scenario, HasSubstr("cluster: {devices: 2, memory: 1 kB, link: {latency: 0 s, bandwidth: 50 B/s, shared: "
                                           "false}}\nworkload: {layers: \"layers.yaml\"}\nbatch: {micro: 1, microbatches: 4}"));
  EXPECT_TRUE(file.warnings.empty());
}

// One device: 2 + 3. Two devices: one stage on two replicas, 5 / 2 + 4 * 1 / 2 * 20 / (50 * 4) = 2.7; two stages would pay
// 3 + 2 * 100 / 50 = 7 at least.
TEST_F(PiperFormat, IsPlannedInItsOwnUnit) {
  const PiperFile file = read(two_nodes(kHead, kEdge));
  const Experiment two = experiment({}, file);
  const Answer answer = search(two, with_piper());
  ASSERT_FALSE(answer.candidates.empty());
  EXPECT_TRUE(answer.search.proved_optimal);
  EXPECT_EQ(answer.objective, "time_per_sample");
  EXPECT_EQ(answer.candidates[0].metrics[0].first, "time_per_sample");
  EXPECT_DOUBLE_EQ(answer.candidates[0].metrics[0].second, 2.7);
  EXPECT_EQ(answer.candidates[0].stages[0].operators, (std::vector<std::string>{"layer.7", "layer.9"}));
  ASSERT_NE(answer.candidates[0].plan, nullptr);
  EXPECT_EQ(answer.candidates[0].plan->data, 2);
  ImportOptions alone;
  alone.devices = 1;
  const Answer one = search(experiment(alone, file), with_piper());
  EXPECT_DOUBLE_EQ(one.candidates[0].metrics[0].second, 5);
}

TEST_F(PiperFormat, LimitsOfTheImportHold) {
  const PiperFile file = read(two_nodes(kHead, kEdge));
  // Without replicas two stages are left: 3 + 4, and 2 + (100 + 16) * 2 / 50 = 6.64; one stage of 5 is better.
  ImportOptions no_replicas;
  no_replicas.most_data = 1;
  const Answer no_data = search(experiment(no_replicas, file), with_piper());
  EXPECT_DOUBLE_EQ(no_data.candidates[0].metrics[0].second, 5);
  // 20 + 20 + 2 * 5 fit 50 bytes; 49 need the recompute of layer 9, which takes 22 instead of 25: (2 + 4) / 2 + 0.2.
  ImportOptions little;
  little.memory = Bytes(49);
  const Answer tight = search(experiment(little, file), with_piper());
  EXPECT_DOUBLE_EQ(tight.candidates[0].metrics[0].second, 3.2);
  EXPECT_EQ(tight.candidates[0].stages[0].recompute, (std::vector<std::string>{"layer.9"}));
}

TEST_F(PiperFormat, FaultsHavePlaces) {
  EXPECT_EQ(fault(two_nodes(kHead, R"({"sourceId": 7, "destId": 8, "communicationCost": 1})")),
            "in.json:4:37: error: there is no node with the id 8");
  EXPECT_EQ(fault(two_nodes(kHead, std::string(kEdge) + ", " + kEdge)),
            "in.json:4:67: error: the edge from 7 to 9 is given twice");
  EXPECT_THAT(fault(two_nodes(kHead, kEdge, "")), HasSubstr("error: 'syncTimeFw' lacks node 7, which feeds this node"));
  EXPECT_THAT(fault(two_nodes(kHead, kEdge, "\"7\": 0.0", "\"9\": 1.0, \"7\": 0.0")),
              HasSubstr("error: 'syncTimeBw' names node 7, but no edge says that it is fed by this node"));
  EXPECT_THAT(fault(two_nodes(R"("maxDevices": 1.5, )", kEdge)), HasSubstr("error: 'maxDevices' must be a whole number from 1"));
  EXPECT_THAT(fault(R"({"nodes": []})"), HasSubstr("error: 'nodes' must be a list of at least one node"));
}

// Everything that a file lacks is reported at once, and a misspelt key is not passed over as a note of the author's.
TEST_F(PiperFormat, MissingKeysAreFaults) {
  EXPECT_EQ(fault(R"({"maxDevices": 4})"), "in.json:1:1: error: missing key 'nodes'");
  EXPECT_EQ(fault(R"({"node": []})"), "in.json:1:2: error: unknown key 'node', did you mean 'nodes'?");
  EXPECT_EQ(
      fault("{\"nodes\": [{\"id\": 0, \"name\": \"x\"},\n{\"name\": \"y\", \"TMPC\": {}}], \"edges\": [\n{\"sourceID\": 0}]}"),
      "in.json:1:12: error: missing key 'TMPCs'\n"
      "in.json:2:1: error: missing key 'id'\n"
      "in.json:2:15: error: unknown key 'TMPC', did you mean 'TMPCs'?\n"
      "in.json:3:1: error: missing keys 'destId' and 'communicationCost'\n"
      "in.json:3:2: error: unknown key 'sourceID', did you mean 'sourceId'?");
  EXPECT_EQ(
      fault(
          R"({"nodes": [{"id": 0, "TMPCs": {"1": [{"timePerSample": 1, "parameterSize": 1, "memoryUsageA": 1, "memoryUsageB": 1}]}}]})"),
      "in.json:1:38: error: missing keys 'syncTimeFw' and 'syncTimeBw'");
}

TEST_F(PiperFormat, CyclesAreFound) {
  const std::string text = two_nodes(kHead, std::string(kEdge) + R"(, {"sourceId": 9, "destId": 7, "communicationCost": 1})",
                                     "\"7\": 0.0}, \"syncTimeBw\": {\"7\": 0");
  EXPECT_THAT(fault(text), HasSubstr("error:"));
}

TEST_F(PiperFormat, AMissingLimitNamesTheOption) {
  const PiperFile file = read(two_nodes("", kEdge));
  EXPECT_THAT(test::fault_of([&] { import_piper(file, {}, "layers.yaml"); }),
              HasSubstr("error: the file has no 'maxDevices'; give --devices"));
}

TEST_F(PiperFormat, TheOtherNameOfTheMicrobatchesIsTakenAndReported) {
  const PiperFile file = read(two_nodes(R"("maxBatchSize": 6, )", kEdge));
  EXPECT_EQ(file.microbatches, 6);
  ASSERT_EQ(file.warnings.size(), 1U);
  EXPECT_THAT(file.warnings[0],
              HasSubstr("in.json:1:18: warning: 'maxBatchSize' is taken for 'mbsInBatch', the microbatches of a step"));
}

// As the format's description has it: Fw by what a node feeds.
TEST_F(PiperFormat, SwappedBordersAreSwappedBack) {
  std::string text = two_nodes(kHead, kEdge);
  for (std::size_t at = 0; (at = text.find("syncTime", at)) != std::string::npos; at += 10)
    text.replace(at + 8, 2, text.substr(at + 8, 2) == "Fw" ? "Bw" : "Fw");
  const PiperFile file = read(text);
  ASSERT_EQ(file.warnings.size(), 1U);
  EXPECT_THAT(file.warnings[0], HasSubstr("warning: syncTimeFw is keyed by the nodes that this one feeds"));
  EXPECT_EQ(import_piper(file, {}, "l").layers, import_piper(read(two_nodes(kHead, kEdge)), {}, "l").layers);
}

TEST_F(PiperFormat, UnknownKeysAreSkippedAndReported) {
  const PiperFile file = read(two_nodes(std::string(kHead) + R"("bandwith": 3, )", kEdge));
  ASSERT_EQ(file.warnings.size(), 1U);
  EXPECT_THAT(file.warnings[0], HasSubstr("warning: unknown key 'bandwith', did you mean 'bandwidth'?"));
}

}  // namespace
}  // namespace panpipe::planner::piper
