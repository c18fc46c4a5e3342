// The heading of every answer for people, and the global batch that it names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";
const std::string kWhere = "gpt2-large (36 layers, hidden 1280, 774.0 M parameters) on 8 x RTX3090 (clusters/rtx3090x8.yaml)\n";
const std::string kPlan =
    "pipeline 8 x tensor 1 x data 1, pfeife, fp16, framework eager; global batch 16 = 8 microbatches of 2 x 1 replica\n";

// A scenario of two replicas of a two-stage pipeline, in a folder of its own.
std::string small(const std::string& workload, const std::string& more = "") {
  const std::string file = temporary_folder() + "/small.yaml";
  write_file(file, "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, nodes: 2}\nworkload: " + workload +
                       "\nbatch: {micro: 2, global: 64}\nprecision: bf16\nparallel: {pipeline: 4, data: 4}\n" + more);
  return file;
}

// "a\nb\nc\n" -> "a\nb\n"
std::string two_lines(const std::string& text) { return text.substr(0, text.find('\n', text.find('\n') + 1) + 1); }

TEST(Heading, StandsInFrontOfPredictionsAndInTheirFiles) {
  for (const std::string verb : {"estimate ", "simulate "}) {
    const std::string folder = temporary_folder();
    EXPECT_THAT(answer_of(verb + kGpt2 + " -o " + folder), StartsWith(kWhere + kPlan + "step time  "));
    EXPECT_THAT(read_file(folder + "/report.txt"), StartsWith(kWhere + kPlan + "step time  "));
    const json heading = json::parse(read_file(folder + "/result.json"))["heading"];
    ASSERT_EQ(heading.size(), 2u);
    EXPECT_EQ(heading[0].get<std::string>() + "\n" + heading[1].get<std::string>() + "\n", kWhere + kPlan);
  }
}

// Of the plan that was followed, not of the scenario that it replaces parts of.
TEST(Heading, IsOfThePlanThatWasFollowed) {
  const std::string folder = temporary_folder();
  ASSERT_EQ(
      panpipe("estimate " + kGpt2 +
              " --set 'schedule={name: interleaved-1f1b, stages_per_rank: 3}' --set 'parallel={pipeline: 4, data: 2, zero: 1}'"
              " --set recompute=full -o " +
              folder)
          .exit_code,
      0);
  EXPECT_EQ(two_lines(answer_of("estimate " + kGpt2 + " --plan " + folder + "/plan.yaml")),
            kWhere +
                "pipeline 4 x tensor 1 x data 2, ZeRO 1, interleaved-1f1b with 3 stages a rank, recompute full, fp16, "
                "framework eager; global batch 32 = 8 microbatches of 2 x 2 replicas\n");
}

TEST(Heading, NamesADefaultFramework) {
  const std::string where = " parameters) on 16 x A100-80G-SXM in 2 nodes (clusters/dgx-a100-80g.yaml)\n";
  const std::string degrees = "pipeline 4 x tensor 1 x data 4, 1f1b, bf16, ";
  const std::string batch = "; global batch 64 = 8 microbatches of 2 x 4 replicas\n";
  EXPECT_EQ(two_lines(panpipe("estimate " + small("{model: llama2-7b, layers: 8}")).out),
            "llama2-7b (8 layers, hidden 4096, 1.881 B" + where + degrees + "framework flash-attn (default for llama)" + batch);
  EXPECT_EQ(two_lines(panpipe("estimate " + small("{model: gpt2-large}")).out),
            "gpt2-large (36 layers, hidden 1280, 774.0 M" + where + degrees + "framework megatron (default for gpt)" + batch);
  EXPECT_THAT(panpipe("estimate " + small("{model: llama2-7b, layers: 8}", "framework: megatron\n")).out,
              HasSubstr(degrees + "framework megatron; global"));
  const Outcome check = panpipe("check " + small("{model: llama2-7b, layers: 8}"));
  EXPECT_THAT(check.out, StartsWith("# llama2-7b (8 layers, hidden 4096, 1.881 B" + where + "# " + degrees));
  EXPECT_THAT(check.out, testing::ContainsRegex("\n# framework: flash-attn +# default for llama\n"));
}

// Devices written in place have no framework.
TEST(Heading, OfMeasuredLayersOnDevicesInPlace) {
  const std::string folder = temporary_folder();
  write_file(folder + "/layers.yaml",
             "panpipe: 1\nkind: layers\nsource: made up\nlayers:\n- {name: a, forward: 1 ms, backward: 2 ms, output: 1 kB}\n"
             "- {name: b, forward: 1 ms, backward: 2 ms}\n");
  write_file(folder + "/s.yaml",
             "panpipe: 1\ncluster: {devices: 2, memory: 1 GiB, link: {latency: 1 us, bandwidth: 10 GB/s}}\n"
             "workload: {layers: layers.yaml}\nbatch: {micro: 1, microbatches: 1}\n");
  EXPECT_EQ(two_lines(panpipe("estimate " + folder + "/s.yaml").out),
            "2 measured layers of layers.yaml on 2 devices\n"
            "pipeline 2 x tensor 1 x data 1, 1f1b, fp32; global batch 1 = 1 microbatch of 1 x 1 replica\n");
}

TEST(Heading, OfASearchNamesWhatIsOpen) {
  EXPECT_THAT(answer_of("plan " + kGpt2 + " --method pfeife --set schedule.prefetch=auto --candidates 1"),
              StartsWith(kWhere + "pipeline 8, pfeife, fp16, framework eager; global batch 16; open: tensor, data, zero\n"));
  EXPECT_THAT(
      panpipe("plan " + small("{model: gpt2}", "") + " --method pfeife --set recompute=none --set schedule=1f1b").out,
      HasSubstr(
          "\npipeline 4 x data 4, 1f1b, bf16, framework megatron (default for gpt); global batch 64; open: tensor, zero\n"));
}

TEST(Heading, OfASweepIsWhatItsCellsShare) {
  const auto heading = [](const std::string& arguments) { return two_lines(panpipe("sweep " + arguments).out); };
  EXPECT_EQ(heading(kGpt2 + " --over schedule=1f1b,zb-h1"),
            kWhere +
                "pipeline 8 x tensor 1 x data 1, fp16, framework eager; global batch 16 = 8 microbatches of 2 x 1 replica; "
                "swept: schedule\n");
  EXPECT_EQ(
      heading(kGpt2 + " --over 'parallel={pipeline: 8},{pipeline: 4, data: 2}' --over cluster.device.memory='24 GiB','12 GiB'"),
      "gpt2-large (36 layers, hidden 1280, 774.0 M parameters)\n"
      "pfeife, fp16, framework eager; 8 microbatches of 2 a replica; swept: parallel, cluster.device.memory\n");
  // The first cell cannot be read: the next one is asked.
  EXPECT_EQ(heading(kGpt2 + " --over precision=none,bf16 --set schedule=1f1b"),
            kWhere +
                "pipeline 8 x tensor 1 x data 1, 1f1b, framework eager; global batch 16 = 8 microbatches of 2 x 1 replica; "
                "swept: precision\n");
}

TEST(Heading, OfAComparisonOnceWhereBothAreOfOnePlan) {
  const std::string a = temporary_folder(), b = temporary_folder(), c = temporary_folder();
  ASSERT_EQ(panpipe("estimate " + kGpt2 + " -o " + a).exit_code, 0);
  ASSERT_EQ(panpipe("simulate " + kGpt2 + " -o " + b).exit_code, 0);
  ASSERT_EQ(panpipe("estimate " + kGpt2 + " --set batch.microbatches=16 -o " + c).exit_code, 0);
  EXPECT_THAT(panpipe("compare " + a + " " + b).out, StartsWith(kWhere + kPlan + "A  estimated  " + a));
  const std::string where = kWhere.substr(0, kWhere.size() - 1), plan = kPlan.substr(0, kPlan.size() - 1);
  const Outcome apart = panpipe("compare --metrics-only " + a + " " + c);
  EXPECT_THAT(apart.out, StartsWith("A  estimated  " + a));
  EXPECT_THAT(apart.out, HasSubstr("\n   " + where + "\n   " + plan + "\nB  estimated  " + c));
  EXPECT_THAT(apart.out, HasSubstr("; global batch 32 = 16 microbatches of 2 x 1 replica\n"));
  const std::string page = temporary_folder() + "/page.html";
  ASSERT_EQ(panpipe("report " + a + " " + b + " -o " + page).exit_code, 0);
  EXPECT_THAT(read_file(page), HasSubstr(">" + plan + "<"));
}

// The replicas of a sweep share one global batch, so that its steps can be compared; a plan keeps it too.
TEST(GlobalBatch, StaysInSweepsAndPlans) {
  const std::string file = small("{model: gpt2}");
  const Outcome run = panpipe("sweep " + file + " --over parallel.data=1,2,3,4 --json");
  const json cells = json::parse(run.out)["cells"];
  for (const int i : {0, 1, 3}) {
    const json& metrics = cells[i]["metrics"];
    EXPECT_NEAR(metrics["step_time_s"].get<double>() * metrics["samples_per_s"].get<double>(), 64, 1e-6) << i;
  }
  EXPECT_EQ(cells[2]["status"], "refused");
  EXPECT_EQ(cells[2]["reason"], "a global batch of 64 is no multiple of 6 (micro 2 x data 3)");
  EXPECT_EQ(two_lines(panpipe("sweep " + file + " --over parallel.data=1,2").out),
            "gpt2 (12 layers, hidden 768, 124.4 M parameters) on 16 x A100-80G-SXM in 2 nodes (clusters/dgx-a100-80g.yaml)\n"
            "pipeline 4 x tensor 1, 1f1b, bf16, framework megatron (default for gpt); global batch 64; swept: parallel.data\n");
  const std::string plan = temporary_folder() + "/plan.yaml", open = temporary_folder() + "/open.yaml";
  write_file(open,
             "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\nbatch: {micro: auto, global: 64}\n"
             "precision: bf16\nschedule: 1f1b\nrecompute: none\n");
  const json candidates = json::parse(answer_of("plan " + open + " --json -o " + plan))["candidates"];
  for (const json& candidate : candidates) {
    const json& s = candidate["settings"];
    EXPECT_EQ(s["batch.micro"].get<int>() * s["batch.microbatches"].get<int>() * s["parallel.data"].get<int>(), 64) << s;
  }
  EXPECT_THAT(answer_of("estimate " + open + " --plan " + plan), HasSubstr("; global batch 64 = "));
  const std::string other = refusal_of("estimate " + open + " --plan " + plan + " --set batch.global=128");
  EXPECT_THAT(other, HasSubstr("but the scenario has "));
  EXPECT_THAT(other, HasSubstr("help: the plan decides batch.microbatches: do not set it, or plan again"));
  const Outcome each = panpipe("sweep " + file +
                               " --plan-each --set batch.global=32 --set cluster.nodes=1 --set 'parallel={pipeline: 4}'"
                               " --set schedule=1f1b --over precision=fp16,bf16 --json");
  const json planned = json::parse(each.out)["cells"];
  for (const json& cell : planned) {
    ASSERT_EQ(cell["status"], "fits") << cell;
    EXPECT_NEAR(cell["metrics"]["step_time_s"].get<double>() * cell["metrics"]["samples_per_s"].get<double>(), 32, 1e-6);
  }
}

}  // namespace
}  // namespace panpipe::test
