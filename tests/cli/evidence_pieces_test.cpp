// Single pieces of `evidence:`: what each bears on; and which one is measured next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/evidence/piece_readers.hpp"
#include "costmodel/profile/measured_keys.hpp"
#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Tests run in tests/, and the program in the folder above.
const std::string kSources = std::filesystem::absolute("..").lexically_normal().string();
const std::string kLogs = kSources + "validation/logs/";

json answer(const std::string& arguments) { return json::parse(answer_of(arguments)); }

// One node of eight A100 with data and tensor ranks.
std::string a100_scenario(const std::string& more = "") {
  return write_file(temporary_folder() + "/a100.yaml",
                    "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, nodes: 1}\n"
                    "workload: {model: gpt, layers: 24, hidden: 2048, heads: 16, sequence: 2048, vocabulary: 51200}\n"
                    "batch: {micro: 4, microbatches: 8}\nprecision: bf16\nparallel: {tensor: 8}\ntrainer: megatron-core\n" +
                        more);
}

json piece_of(const std::string& scenario, const std::string& file) {
  return answer("estimate --json " + scenario + " --evidence " + file)["evidence"]["pieces"][0];
}

// An output of nccl-tests on one node; the times are its in-place ones.
std::string nccl_output(const std::string& device) {
  std::string text =
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20\n#\n# Using devices\n";
  for (int i = 0; i < 8; ++i)
    text += "#  Rank " + std::to_string(i) + " Group  0 Pid 10" + std::to_string(i) + " on      n0 device  " + std::to_string(i) +
            " [0000:07:00] " + device + "\n";
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n"
      "   268435456      67108864     float     sum      -1   2200.0  122.0  213.5      0   2200.0  122.0  213.5      0\n"
      "  1073741824     268435456     float     sum      -1   8400.0  127.8  223.7      0   8400.0  127.8  223.7      0\n";
  return text;
}

TEST(Evidence, ATableOfNcclTestsBearsOnLinks) {
  const std::string scenario = a100_scenario(), folder = temporary_folder();
  const json piece = piece_of(scenario, write_file(folder + "/table.txt", nccl_output("NVIDIA A100-SXM4-80GB")));
  EXPECT_EQ(piece["kind"], "collectives");
  EXPECT_THAT(piece["what"].get<std::string>(), HasSubstr("all_reduce over 8 ranks"));
  EXPECT_FALSE(piece.contains("left_out")) << piece;
  EXPECT_LT(piece["half_width_after"], piece["half_width_before"]);
  const json other = piece_of(scenario, write_file(folder + "/other.txt", nccl_output("NVIDIA H100 80GB HBM3")));
  EXPECT_EQ(other["left_out"], "it was measured on NVIDIA H100 80GB HBM3, and this step is on A100-80G-SXM");
  // One card of the machine has no links to measure.
  EXPECT_THAT(piece_of(a100_scenario() + " --set cluster.devices_per_node=1 --set parallel.tensor=1", folder + "/table.txt")
                  .value("left_out", ""),
              HasSubstr("this cluster has no such group"));
}

// Products at 0.7 of the peak instead of 0.8062: 15.2 % longer.
TEST(Evidence, AMeasuredDeviceBearsOnItsDirections) {
  const std::string folder = temporary_folder();
  std::string text = read_file(kSources + "scenarios/calibrations/a100-80g-sxm.yaml");
  const std::string from = "gemm_efficiency: {value: 0.8062";
  ASSERT_NE(text.find(from), std::string::npos);
  text.replace(text.find(from), from.size(), "gemm_efficiency: {value: 0.79");
  const json piece = piece_of(a100_scenario(), write_file(folder + "/mine.yaml", text));
  EXPECT_EQ(piece["kind"], "device");
  EXPECT_THAT(piece["what"].get<std::string>(), HasSubstr("products 2.1 % longer than predicted"));
  // What is not another number than the one that predicts the step states nothing.
  EXPECT_THAT(piece["what"].get<std::string>(), Not(HasSubstr("launches")));
  EXPECT_THAT(piece_of(a100_scenario(), kSources + "scenarios/calibrations/a100-80g-sxm.yaml").value("left_out", ""),
              HasSubstr("no measured number"));
  EXPECT_LT(piece["half_width_after"], piece["half_width_before"]);
  EXPECT_EQ(piece_of("scenarios/examples/llama-3-8b-h100.yaml", folder + "/mine.yaml").value("left_out", "").substr(0, 18),
            "it was measured on");
}

// A number with half of itself as its uncertainty narrows less than the same one without.
TEST(Evidence, AnUncertainNumberOfADeviceCountsLess) {
  const std::string folder = temporary_folder(), scenario = a100_scenario();
  std::string text = read_file(kSources + "scenarios/calibrations/a100-80g-sxm.yaml");
  const std::string from = "gemm_efficiency: {value: 0.8062";
  ASSERT_NE(text.find(from), std::string::npos);
  text.replace(text.find(from), from.size(), "gemm_efficiency: {value: 0.79");
  const json sure = piece_of(scenario, write_file(folder + "/sure.yaml", text));
  const std::size_t uncertainty = text.find("uncertainty: ", text.find("value: 0.79"));
  text.replace(uncertainty, text.find(',', uncertainty) - uncertainty, "uncertainty: 0.395");
  const json unsure = piece_of(scenario, write_file(folder + "/unsure.yaml", text));
  EXPECT_EQ(sure["what"], unsure["what"]);
  EXPECT_LT(sure["half_width_after"], unsure["half_width_after"]);
  EXPECT_LE(unsure["half_width_after"], unsure["half_width_before"]);
}

// A launch of no time is no measurement; the other numbers count.
TEST(Evidence, ANumberOfZeroIsNone) {
  const std::string folder = temporary_folder();
  std::string text = read_file(kSources + "scenarios/calibrations/a100-80g-sxm.yaml");
  const std::size_t launch = text.find("launch: {value: ");
  ASSERT_NE(launch, std::string::npos);
  text.replace(launch, text.find(',', launch) - launch, "launch: {value: 0 us");
  const json piece = piece_of(a100_scenario(), write_file(folder + "/mine.yaml", text));
  EXPECT_GT(piece["half_width_after"], 0.05);
}

TEST(Evidence, APieceNamedTwiceCountsOnce) {
  const std::string folder = temporary_folder();
  std::string text = read_file(kSources + "scenarios/calibrations/a100-80g-sxm.yaml");
  const std::string from = "gemm_efficiency: {value: 0.8062";
  text.replace(text.find(from), from.size(), "gemm_efficiency: {value: 0.7");
  const std::string file = write_file(folder + "/mine.yaml", text), scenario = a100_scenario();
  const std::string other = folder + "/../" + folder.substr(folder.rfind('/') + 1) + "/mine.yaml";
  const json once = answer("estimate " + scenario + " --json --evidence " + file);
  const json twice = answer("estimate " + scenario + " --json --evidence " + file + " --evidence " + other);
  EXPECT_EQ(once["metrics"], twice["metrics"]);
  EXPECT_EQ(twice["evidence"]["pieces"][1]["left_out"], "it is named twice, and counts once");
}

// Kernels of a tensor-parallel rank, each group a twentieth longer than it is predicted.
TEST(Evidence, ATraceBearsOnItsGroupsOfKernels) {
  const std::string scenario = a100_scenario(), folder = temporary_folder();
  const json groups = answer("import kineto tests/jobs/data/kineto-2-steps.json --scenario " + scenario + " --json");
  const auto predicted = [&](const std::string& name) {
    for (const json& row : groups["groups"])
      if (row["group"].get<std::string>().starts_with(name)) return row["predicted_s"].get<double>() * 1e6;
    ADD_FAILURE() << name << " in " << groups;
    return 0.0;
  };
  std::string text =
      R"({"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 8}, "traceEvents": [)"
      R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 9e6})";
  double now = 0;
  const auto kernel = [&](const std::string& name, double duration_us) {
    text += R"(, {"ph": "X", "cat": "kernel", "name": ")" + name + R"(", "pid": 0, "tid": 7, "ts": )" + std::to_string(now) +
            R"(, "dur": )" + std::to_string(duration_us) + R"(, "args": {"device": 0, "stream": 7}})";
    now += duration_us;
  };
  kernel("sm80_xmma_gemm_bf16", 1.05 * predicted("products"));
  kernel("void flash_fwd_kernel", 1.05 * predicted("attention"));
  const std::string trace = write_file(folder + "/trace.txt", text + "]}");
  const json piece = piece_of(scenario, trace);
  EXPECT_EQ(piece["kind"], "trace");
  EXPECT_EQ(piece["what"], "products 5.0 % longer than predicted, attention 5.0 % longer than predicted");
  EXPECT_LT(piece["half_width_after"], piece["half_width_before"]);
  EXPECT_EQ(piece_of("scenarios/examples/gpt3-175b-a100x64.yaml", trace)["left_out"],
            "it states 8 ranks, and this scenario has 64");
}

// A measured result, made of a predicted one, of a step a twentieth longer.
TEST(Evidence, AResultOfTheExecutorIsAMeasuredStep) {
  const std::string folder = temporary_folder();
  std::string text = read_file(a100_scenario());
  text.replace(text.find("megatron-core"), 13, "panpipe");
  const std::string scenario = write_file(folder + "/own.yaml", text);
  json result = answer("estimate --json " + scenario);
  const std::string predicted = write_file(folder + "/predicted.json", result.dump());
  EXPECT_THAT(refusal_of("estimate " + scenario + " --evidence " + predicted), HasSubstr("this is a prediction"));
  result["kind"] = "measured";
  result["metrics"]["step_time_s"] = 1.05 * result["metrics"]["step_time_s"].get<double>();
  const json piece = piece_of(scenario, write_file(folder + "/result.json", result.dump()));
  EXPECT_EQ(piece["kind"], "result");
  EXPECT_THAT(piece["what"].get<std::string>(), HasSubstr("5.0 % longer than predicted, of the scenario in its file"));
  EXPECT_FALSE(piece.contains("left_out")) << piece;
  EXPECT_THAT(piece_of(a100_scenario(), folder + "/result.json").value("left_out", ""), HasSubstr("Panpipe's executor ran it"));
}

// A trainer's job is planned with evidence too: the log states its own job.
TEST(Evidence, AJobInPlaceOfAScenarioTakesIt) {
  const std::string job = kSources + "scenarios/examples/jobs/megatron-llama-3-70b.sh";
  const json answered =
      answer("plan " + job + " --for megatron --cluster dgx-a100-80g --json --threads 1 --time-limit 20 --evidence " + kSources +
             "tests/jobs/data/megatron.log");
  const json& piece = answered["candidates"][0]["evidence"]["pieces"][0];
  EXPECT_EQ(piece["kind"], "log");
  EXPECT_FALSE(piece.contains("left_out")) << piece;
}

TEST(Evidence, NextNamesWhatNarrowsMostWithItsCost) {
  const std::string scenario = a100_scenario();
  const json next = answer("evidence next --json " + scenario);
  ASSERT_GT(next["pieces"].size(), 4U);
  double before = 0;
  for (const json& piece : next["pieces"]) {
    EXPECT_LT(piece["half_width_after"], next["half_width"]);
    EXPECT_GT(piece["gpu_seconds"], 0);
    EXPECT_FALSE(piece["commands"].empty());
    EXPECT_GT(piece["half_width_after"].get<double>(), before - 0.005);  // those that are alike stand by their cost
    before = piece["half_width_after"];
  }
  EXPECT_NEAR(next["half_width"].get<double>(), piece_of(scenario, "scenarios/calibrations/h100-sxm.yaml")["half_width_before"],
              1e-9);
  EXPECT_THAT(answer_of("evidence next " + scenario), HasSubstr("half width of the 80 % interval now: "));
}

// What is hoped for of a measured device is what its file gives: on A100 published rates of a kernel stand for attention, and
// launches of a trainer in Python are measured on no GPU.
TEST(Evidence, NextHopesForWhatAMeasuredDeviceGives) {
  const std::string file = a100_scenario();
  const Scenario on_gpu = load_scenario(file);
  EXPECT_EQ(app::directions_of_device(on_gpu), (std::vector{Direction::Products, Direction::MemoryTraffic}));
  std::string text = read_file(kSources + "scenarios/calibrations/a100-80g-sxm.yaml");
  // Every number that a device measures of itself, other in its last digit than the one in force.
  for (const MeasuredKey& key : kMeasuredKeys) {
    const std::size_t at = text.find("\n" + std::string(key.key) + ": {value: ");
    if (at == std::string::npos || !device_measures(key.key, true)) continue;
    const std::size_t value = text.find("value: ", at) + 7, digit = text.find_first_of(", ", value);
    text.insert(digit, text.substr(value, digit - value).find('.') == std::string::npos ? ".001" : "001");
    const std::size_t unmeasured = text.find("not fitted; ", value);
    if (unmeasured < text.find('\n', value)) text.erase(unmeasured, 12);
  }
  EXPECT_EQ(piece_of(file, write_file(temporary_folder() + "/mine.yaml", text))["what"],
            "products as predicted, memory traffic as predicted");
  // On a CPU the executor's launches are those of the device.
  const std::string folder = temporary_folder();
  write_file(folder + "/box.yaml",
             "panpipe: 1\nkind: device\nname: box\nprocessor: cpu\nmemory: 16 GiB\nmemory_bandwidth: 20 GB/s\n"
             "peak: {fp32: 200 GFLOP/s}\ncopy_bandwidth: 10 GB/s\n");
  const Scenario on_cpu =
      load_scenario(write_file(folder + "/cpu.yaml",
                               "panpipe: 1\ncluster: {devices_per_node: 1, device: box.yaml}\nworkload: {model: gpt2}\n"
                               "batch: {micro: 1, microbatches: 1}\nprecision: fp32\nframework: panpipe\n"));
  EXPECT_EQ(app::directions_of_device(on_cpu),
            (std::vector{Direction::Products, Direction::Attention, Direction::MemoryTraffic, Direction::Host}));
}

}  // namespace
}  // namespace panpipe::test
