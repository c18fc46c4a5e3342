// Step times and memory of Pfeife's planner: "Pfeife: Automatic Pipeline Parallelism for PyTorch", ICML 2025, code at github
// MerHS/pfeife. Its estimate is the longest path over passes and transfers with channels that are never shared, which is what a
// replay of the tasks on idle links gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

using nlohmann::json;

// Transfers: free, a latency, or [c, m, x]: c ms up to x MiB, then m ms more for each MiB.
std::string link_text(const json& comm) {
  if (comm.contains("const_ms"))
    return fmt::format("{{latency: {:.17g} ms, bandwidth: unlimited}}", comm["const_ms"].get<double>());
  if (!comm.contains("piecewise")) return "{latency: 0, bandwidth: unlimited}";
  const double c = comm["piecewise"][0], m = comm["piecewise"][1], x = comm["piecewise"][2];
  const double bend = x * 1048576, far = 1024;
  return fmt::format("{{table: [[0 B, {0:.17g} ms], [{1:.0f} B, {0:.17g} ms], [{2:.0f} B, {3:.17g} ms]]}}", c, bend,
                     far * 1048576, c + m * (far - x));
}

std::string edges_text(const json& edges) {
  std::string text = edges.empty() ? "edges: []\n" : "edges:\n";
  int tensor = 0;
  for (const auto& edge : edges)
    text += fmt::format("- {{from: op{}, to: op{}, bytes: {} B, tensor: t{}}}\n", edge[0].get<int>(), edge[1].get<int>(),
                        edge[2].get<long long>(), tensor++);
  return text;
}

// The orders of these cases spell forward of stage 1, microbatch 0 as "F1.0".
std::string csv_of(const json& order) {
  std::string text;
  for (const auto& row : order) {
    std::string line;
    for (const auto& cell : row) {
      const std::string name = cell;
      const auto dot = name.find('.');
      line += (line.empty() ? "" : ",") + name.substr(1, dot - 1) + name[0] + name.substr(dot + 1);
    }
    text += line + "\n";
  }
  return text;
}

struct Lowered {
  Scenario scenario;
  Workload workload;
  TaskGraph graph;
};

Lowered lower_case(const json& in, const std::string& layers, const std::string& partition, const std::string& extra) {
  const std::string file = test::scratch().write(
      "layers.yaml", "panpipe: 1\nkind: layers\nsource: test\nlayers:\n" + layers + edges_text(in["edges_bytes"]));
  std::string schedule =
      fmt::format("{{name: pfeife, loop_batch: {}, prefetch: {}}}", in["loop_batch"].get<int>(), in["prefetch"].get<int>());
  int virtual_stages = in["loops"];
  if (in.contains("order")) {
    schedule = fmt::format("{{csv: {}}}", test::scratch().write("order.csv", csv_of(in["order"])));
    virtual_stages = 1;
  }
  const std::string text = fmt::format(
      "panpipe: 1\ncluster: {{devices: {0}, memory: 1 TiB, link: {1}}}\nworkload: {{layers: {2}}}\n"
      "batch: {{micro: 1, microbatches: {3}}}\nparallel: {{pipeline: {0}{4}}}\nschedule: {5}\npartition: {6}\n{7}",
      in["devices"].get<int>(), link_text(in.value("comm", json::object())), file, in["batches"].get<int>(),
      virtual_stages > 1 ? fmt::format(", virtual_stages: {}", virtual_stages) : "", schedule, partition, extra);
  Lowered result;
  result.scenario = parse_scenario(text, "case.yaml", ".");
  result.workload = make_workload(result.scenario.workload, {});
  const CostModel model(result.scenario, result.workload);
  result.graph = lower(result.scenario, make_plan(result.scenario, model), model);
  return result;
}

void check_step_time(const json& test) {
  const json& in = test["input"];
  std::string layers, partition;
  const double ratio = in["bwd_over_fwd"];
  for (std::size_t s = 0; s < in["stage_fwd_ms"].size(); ++s) {
    const double forward = in["stage_fwd_ms"][s];
    layers += fmt::format("- {{name: op{}, forward: {:.17g} ms, backward: {:.17g} ms", s, forward, ratio * forward);
    if (in.contains("stage_optim_ms")) layers += fmt::format(", optimizer: {:.17g} ms", in["stage_optim_ms"][s].get<double>());
    layers += "}\n";
    if (s > 0) partition += fmt::format("{}op{}", s == 1 ? "" : ", ", s);
  }
  const Lowered lowered = lower_case(in, layers, "[" + partition + "]", "");
  const test::Replay times = test::replay(lowered.graph);
  ASSERT_TRUE(times.finished);
  const double expected = test["expected"]["estimate_ms"];
  EXPECT_NEAR(times.makespan * 1e-9, expected, 1e-9 * expected);
  const json starts = test["expected"].value("start_ms", json::object());
  for (const auto& [name, start] : starts.items()) {
    const auto dot = name.find('.');
    const int task = test::find_task(lowered.graph, name.substr(1, dot - 1) + name[0] + name.substr(dot + 1));
    ASSERT_GE(task, 0) << name;
    EXPECT_NEAR(times.start[task] * 1e-9, start.get<double>(), 1e-9 * expected) << name;
  }
}

void check_memory(const json& test) {
  const json& in = test["input"];
  std::string layers, partition;
  for (std::size_t op = 0; op < in["ops"].size(); ++op) {
    const json& entry = in["ops"][op];
    long long parameters = 0;
    for (const auto& bytes : entry["params"]) parameters += bytes.get<long long>();
    layers += fmt::format(
        "- {{name: op{}, forward: {:.17g} ms, backward: {:.17g} ms, saved: {} B, temporary: {} B, parameters: {} B, inputs: {} "
        "B}}\n",
        op, entry["t"].get<double>(), entry["t"].get<double>(), entry["act"].get<long long>(), entry["temp"].get<long long>(),
        parameters, entry.value("in_bytes", 0LL));
  }
  for (const auto& cut : in["split_points"]) partition += fmt::format("{}{}", partition.empty() ? "" : ", ", cut.get<int>());
  const Lowered lowered = lower_case(in, layers, "[" + partition + "]", "memory_model: pfeife\n");
  for (int rank = 0; rank < lowered.graph.ranks; ++rank) {
    EXPECT_EQ(test::static_bytes(lowered.graph, rank), test["expected"]["idle_bytes"][rank].get<long long>());
    EXPECT_EQ(test::peak_in_order(lowered.graph, rank), test["expected"]["peak_bytes"][rank].get<long long>());
  }
}

// The planner's sample output in Pfeife's README: ViT-large, two devices, three microbatches; it prints 850.169 ms.
TEST(PfeifeStepTime, SampleOutputOfTheReadme) {
  check_step_time(json::parse(R"({"input": {"stage_fwd_ms": [67.84899202510715, 67.92560639008879],
    "bwd_over_fwd": 2.1269777535272714, "edges_bytes": [[0, 1, 11576279]], "devices": 2, "batches": 3, "loops": 1,
    "loop_batch": 3, "prefetch": 0, "comm": {"const_ms": 0.2602601869048874}},
    "expected": {"estimate_ms": 850.1693382244532, "start_ms": {"F1.0": 68.10925221201204, "B1.1": 348.4367186787583,
    "B0.2": 705.8560415878011}}})"));
}

// The paper's figure 2: GPipe order, 15 and 10 ms forward, transfers of 1 ms: 122 ms.
TEST(PfeifeStepTime, GPipeOfThePapersFigure2FromAFile) {
  check_step_time(json::parse(R"({"input": {"stage_fwd_ms": [15.0, 10.0], "bwd_over_fwd": 2.0, "edges_bytes": [[0, 1, 1]],
    "devices": 2, "batches": 2, "loops": 1, "loop_batch": 2, "prefetch": 0, "comm": {"const_ms": 1.0},
    "order": [["F0.0", "F0.1", "B0.0", "B0.1"], ["F1.0", "F1.1", "B1.0", "B1.1"]]},
    "expected": {"estimate_ms": 122.0, "start_ms": {"B0.0": 62.0, "B0.1": 92.0, "B1.1": 61.0}}})"));
}

// The paper's figure 4: 6, 5 and 4 ms with one prefetched forward take 69 ms (72 without).
TEST(PfeifeStepTime, PrefetchOfThePapersFigure4) {
  const char* form = R"({{"input": {{"stage_fwd_ms": [6.0, 5.0, 4.0], "bwd_over_fwd": 2.0, "edges_bytes": [[0, 1, 0], [1, 2, 0]],
    "devices": 3, "batches": 3, "loops": 1, "loop_batch": 3, "prefetch": {}, "comm": {{}}}}, "expected": {{"estimate_ms": {}}}}})";
  check_step_time(json::parse(fmt::format(fmt::runtime(form), 1, 69.0)));
  check_step_time(json::parse(fmt::format(fmt::runtime(form), 0, 72.0)));
}

// README sample again: it prints idle 7797.13 and 7826.63 MB (MiB), peaks 11530.17 and 9694.14 MB; these are the exact bytes.
TEST(PfeifeMemory, SampleOutputOfTheReadme) {
  check_memory(json::parse(R"({"input": {"ops": [
    {"t": 67.84899202510715, "act": 1950351360, "temp": 13673431, "params": [2024795013], "in_bytes": 2408448},
    {"t": 67.92560639008879, "act": 1944563220, "temp": 13662945, "params": [2025649602]}],
    "edges_bytes": [[0, 1, 11576279]], "split_points": [1], "devices": 2, "batches": 3, "loops": 1, "loop_batch": 3, "prefetch": 0},
    "expected": {"idle_bytes": [8175863070, 8206784919], "peak_bytes": [12090239221, 10165011084]}})"));
}

// Two stages per device, a tensor that skips stages, and an operator that frees more than it keeps: from running its planner.
TEST(PfeifeMemory, LoopedWithASkipAndNegativeActivations) {
  check_memory(json::parse(R"({"input": {"ops": [{"t": 1.0, "act": 100, "temp": 30, "params": [40], "in_bytes": 7},
    {"t": 1.0, "act": 50, "temp": 60, "params": [20]}, {"t": 1.0, "act": 80, "temp": 80, "params": []},
    {"t": 1.0, "act": -20, "temp": 5, "params": [10]}, {"t": 1.0, "act": 60, "temp": 10, "params": [30, 5]},
    {"t": 1.0, "act": 10, "temp": 10, "params": [2]}],
    "edges_bytes": [[0, 1, 8], [1, 2, 8], [2, 3, 8], [3, 4, 8], [4, 5, 8], [0, 4, 16]],
    "split_points": [1, 3, 4], "devices": 2, "batches": 4, "loops": 2, "loop_batch": 2, "prefetch": 1},
    "expected": {"idle_bytes": [580, 676], "peak_bytes": [990, 1146]}})"));
}

TEST(Pfeife, EveryReferenceCase) {
  const char* folder = std::getenv("PANPIPE_REFERENCE");
  std::ifstream file(std::string(folder == nullptr ? "reference" : folder) + "/pfeife_cases.json");
  ASSERT_TRUE(file.good());
  int step_times = 0, memories = 0;
  const json all = json::parse(file);
  for (const json& test : all["cases"]) {
    SCOPED_TRACE(test["id"].get<std::string>());
    if (test["kind"] == "step_time") {
      check_step_time(test);
      ++step_times;
    }
    if (test["kind"] == "memory") {
      check_memory(test);
      ++memories;
    }
  }
  EXPECT_GT(step_times, 0);
  EXPECT_GT(memories, 0);
}

}  // namespace
}  // namespace panpipe
