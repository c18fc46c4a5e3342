// panpipe list: each list is the one that readers use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/input/reader.hpp"
#include "schedule/schedule.hpp"
#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::vector<std::string> kKinds = {"models",   "clusters",   "devices",      "schedules",
                                         "trainers", "frameworks", "calibrations", "prices"};

json list_of_kind(const std::string& kind) { return json::parse(answer_of("list --json " + kind)); }

TEST(List, SchedulesOfTheArenaAloneAreNamed) {
  EXPECT_THAT(panpipe("list schedules").out,
              HasSubstr("schedules; a scenario names one as schedule: NAME\n"
                        "only panpipe arena takes wave-search and loop-search, searched orders of waves and loops\n"));
  const json schedules = list_of_kind("schedules")["items"];
  for (const json& item : schedules) EXPECT_THAT(item["name"].get<std::string>(), testing::Not(HasSubstr("-search")));
}

TEST(Completion, KnowsWhatTheArenaTakes) {
  const auto words = [](const std::string& typed) { return panpipe("completion words -- arena " + typed).out; };
  EXPECT_EQ(words("wave"), "wave-search\tsearched orders of waves and loops\n:files\n");
  EXPECT_THAT(words("zb-h"), HasSubstr("zb-h1\t"));
  EXPECT_THAT(words("zb-h1 zb-v"), HasSubstr("zb-v-auto\t"));  // any number of schedules
  EXPECT_EQ(words("--cost-ratios 8k-"), "8k-recompute\t\n8k-lora\t\n8k-vocabulary\t\n");
  EXPECT_EQ(words("--cost-ratios even,32"), "even,32k\t\n");
  EXPECT_THAT(words("--clusters h100x8,dgx-a"), HasSubstr("h100x8,dgx-a100-80g\t\n"));
  EXPECT_EQ(words("--backend f"), "flow\t\n");
}

TEST(List, EveryNameHasALineAndASource) {
  for (const std::string& kind : kKinds) {
    const json list = list_of_kind(kind);
    EXPECT_EQ(list["schema"], "panpipe-list/1");
    EXPECT_EQ(list["kind"], kind);
    EXPECT_EQ(list["count"], list["items"].size());
    EXPECT_GE(list["items"].size(), kind == "prices" ? 5u : 9u) << kind;
    const std::string text = panpipe("list " + kind).out;
    EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
              list["items"].size() + (kind == "schedules" ? 2 : 1))
        << "a line each, and the number of them";
    EXPECT_THAT(panpipe("list --sources " + kind).out, HasSubstr(" source: "));
    for (const json& item : list["items"]) {
      const std::string name = item["name"];
      EXPECT_GE(item["line"].get<std::string>().size(), 8u) << kind << " " << name;
      EXPECT_GE(item["source"].get<std::string>().size(), 4u) << kind << " " << name;
      EXPECT_THAT("\n" + text, testing::ContainsRegex("\n" + name + " ")) << kind;
    }
    EXPECT_THAT(text, HasSubstr("\n" + std::to_string(list["items"].size()) + " " + kind + "; a scenario names one as "));
  }
}

TEST(List, FilesAreThoseOfTheDataFolderAndSchedulesThoseOfTheTable) {
  for (const std::string kind : {"clusters", "devices", "frameworks", "calibrations", "prices"}) {
    std::vector<std::string> files, names;
    for (const auto& entry : std::filesystem::directory_iterator(data_directory() + "/" + kind))
      files.push_back(entry.path().stem().string());
    const json list = list_of_kind(kind);
    for (const json& item : list["items"]) names.push_back(item["name"]);
    EXPECT_THAT(names, testing::UnorderedElementsAreArray(files));
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  }
  const json schedules = list_of_kind("schedules")["items"];
  ASSERT_EQ(schedules.size(), schedule_families().size());
  for (std::size_t i = 0; i < schedules.size(); ++i) EXPECT_EQ(schedules[i]["name"], schedule_families()[i].name);
}

// A scenario accepts every listed name.
TEST(List, ListedModelsAndClustersLoad) {
  const std::string base = "check scenarios/examples/gpt2-large-rtx3090x8.yaml ";
  const json clusters = list_of_kind("clusters");
  for (const json& item : clusters["items"]) {
    const Outcome run = panpipe("check --links --json " + item["file"].get<std::string>());
    EXPECT_EQ(run.exit_code, 0) << item["name"] << run.err;
  }
  for (const char* model : {"bert-large", "llama2-7b", "vit-l-17"}) {
    const json models = list_of_kind("models")["items"];
    const bool listed = std::any_of(models.begin(), models.end(), [&](const json& item) { return item["name"] == model; });
    EXPECT_EQ(panpipe(base + "--set workload.model=" + model).exit_code == 0, listed) << model;
  }
}

TEST(List, WithoutAKindItCountsThem) {
  const std::string text = panpipe("list").out;
  for (const std::string& kind : kKinds)
    EXPECT_THAT(text, testing::ContainsRegex(kind + " +" + std::to_string(list_of_kind(kind)["items"].size()) + "  "));
}

// Every name on the lists: with every model on the default cluster, with every cluster and every schedule.
TEST(New, WhatItWritesIsAScenario) {
  const auto accepted = [](const std::string& options) {
    const std::string run = answer_of("new " + options);
    const std::string file = temporary_folder() + "/new.yaml";
    write_file(file, run);
    const Outcome check = panpipe("check " + file);
    EXPECT_EQ(check.exit_code, 0) << options << check.err;
  };
  accepted("");
  const json clusters = list_of_kind("clusters");
  for (const json& item : clusters["items"]) accepted("--cluster " + item["name"].get<std::string>());
  for (const char* model : {"bert-large", "llama2-7b"}) accepted(std::string("--cluster h100x8 --model ") + model);
  for (const char* schedule : {"gpipe", "zb-h1", "interleaved-1f1b", "dualpipe"}) accepted(std::string("--schedule ") + schedule);
}

TEST(New, ItsLinesAreExplainedAndItsFaultsAreThoseOfTheOption) {
  const Outcome run = panpipe("new");
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) EXPECT_THAT(line, HasSubstr("# "));
  EXPECT_THAT(panpipe_after(std::getenv("PANPIPE_BIN") + std::string("/panpipe new |"), "estimate -").out,
              HasSubstr("step time  "));
  EXPECT_EQ(panpipe("new --cluster nowhere").exit_code, 2);
}

TEST(New, DoesNotReplaceAFile) {
  const std::string file = temporary_folder() + "/s.yaml";
  ASSERT_EQ(panpipe("new -o " + file).exit_code, 0);
  const std::string text = read_file(file);
  write_file(file, text + "# mine\n");
  EXPECT_EQ(refusal_of("new -o " + file),
            "error: the file " + file +
                " exists, and may have been edited\n  help: choose another file with -o, or replace it with --force\n");
  EXPECT_EQ(read_file(file), text + "# mine\n");
  EXPECT_EQ(panpipe("new --force -o " + file).exit_code, 0);
  EXPECT_EQ(read_file(file), text);
  EXPECT_EQ(panpipe("new -o /dev/stdout").exit_code, 0);
}

// A model of the user's own: its file is named from the folder of the scenario, and found there.
TEST(New, TakesAConfigurationOfHuggingFace) {
  const std::string folder = temporary_folder();
  std::filesystem::create_directories(folder + "/model");
  write_file(
      folder + "/model/config.json",
      R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8,
 "vocab_size": 1000, "max_position_embeddings": 2048})");
  EXPECT_THAT(panpipe("new --model " + folder + "/model/config.json").out,
              HasSubstr("workload: {config: " + folder + "/model/config.json, sequence: 2048}"));
  const std::string file = folder + "/s.yaml";
  const Outcome made = panpipe("new --model " + folder + "/model -o " + file);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(panpipe("estimate " + file).out, HasSubstr("LlamaForCausalLM"));
  EXPECT_THAT(panpipe("new --model workloads/llama-3-8b.json --cluster h100x8").out,
              HasSubstr("workload: {config: workloads/llama-3-8b.json, sequence: 4096}"));
  EXPECT_THAT(panpipe("new").out, HasSubstr("{config: FILE} for a config.json"));
  EXPECT_EQ(panpipe("new --model nowhere.json").exit_code, 2);
}

// Options name files from the working directory, the scenario from its folder; one from a pipe from the working directory.
TEST(New, FindsARelativeConfigurationFromTheWorkingDirectory) {
  const std::string folder = temporary_folder(), program = std::getenv("PANPIPE_BIN") + std::string("/panpipe ");
  std::filesystem::create_directories(folder + "/models");
  std::filesystem::create_directories(folder + "/runs");
  write_file(
      folder + "/models/config.json",
      R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8,
 "vocab_size": 1000, "max_position_embeddings": 2048})");
  const auto made = [&](const std::string& options) { return panpipe_after("cd " + folder + " &&", "new --force " + options); };
  EXPECT_THAT(made("--model models/config.json -o runs/a.yaml").err, testing::StartsWith("written to "));
  EXPECT_THAT(read_file(folder + "/runs/a.yaml"), HasSubstr("{config: ../models/config.json, sequence: 2048} # panpipe list"));
  EXPECT_THAT(made("--model models -o models/b.yaml").err, testing::StartsWith("written to "));
  EXPECT_THAT(read_file(folder + "/models/b.yaml"), HasSubstr("{config: config.json, sequence: 2048}"));
  EXPECT_THAT(panpipe("estimate " + folder + "/models/b.yaml").out, HasSubstr("LlamaForCausalLM"));
  EXPECT_THAT(panpipe_after("cd " + folder + " && " + program + "new --model models/config.json |", "estimate -").out,
              HasSubstr("LlamaForCausalLM"));
}

TEST(CheckCluster, TakesTheNamesThatListPrints) {
  EXPECT_THAT(panpipe("check rtx4090x8").out, testing::StartsWith("# rtx4090x8: 8 x RTX4090"));
}

// No degree is stated: eight stages of a pipeline, and a sentence that states it; with one stated, none.
TEST(Predictions, ReportThatNoSplitWasStated) {
  const std::string file = "scenarios/examples/gpt2-large-rtx3090x8.yaml", note = "note: no split is stated";
  const std::string alone = temporary_folder() + "/s.yaml";
  write_file(alone,
             "panpipe: 1\ncluster: rtx3090x8\nworkload: {model: gpt2, sequence: 1k}\nbatch: {micro: 1, microbatches: 8}\n");
  EXPECT_THAT(panpipe("estimate " + alone).out,
              HasSubstr(note + ", so all 8 devices are one pipeline; panpipe plan " + alone + " searches for a better one\n"));
  EXPECT_THAT(panpipe("estimate " + alone + " --set parallel.data=2").out, testing::Not(HasSubstr(note)));
  EXPECT_EQ(panpipe("estimate " + alone).out, panpipe("estimate " + alone + " --set workload.sequence=1024").out)
      << "tokens of 1k";
}

TEST(Arena, LeavesOutTheDefaultClustersThatAreTooSmall) {
  EXPECT_THAT(answer_of("arena 1f1b gpipe --alone --ranks 16 --microbatches 16"),
              HasSubstr("too small for 16 ranks, and left out: rtx3090x8-nobridge (8 devices), dgx-a100-80g (8 devices), "
                        "h100x8 (8 devices); --clusters names others\n"));
  EXPECT_EQ(panpipe("arena 1f1b --alone --ranks 16 --clusters h100x8").exit_code, 2);
}

TEST(CheckCluster, AClusterFileIsCheckedByItself) {
  const std::string file = "scenarios/clusters/dgx-a100-80g.yaml";
  const std::string run = answer_of("check " + file + " --set nodes=2");
  EXPECT_THAT(run, testing::StartsWith("# dgx-a100-80g: 16 x A100-80G-SXM in 2 nodes\n# DGX A100, 80 GB: eight GPUs"));
  EXPECT_THAT(run, testing::ContainsRegex("\nnodes: 2 +# --set\n"));
  EXPECT_THAT(run, HasSubstr("\n# 16 devices: legal; --links shows the path between each pair\n"));
  // The same pairs as through a scenario that names the file.
  const std::string scenario = "scenarios/examples/gpt2-large-rtx3090x8.yaml";
  EXPECT_EQ(panpipe("check --links scenarios/clusters/rtx3090x8.yaml").out, panpipe("check --links " + scenario).out);
  EXPECT_EQ(panpipe("check --links --json scenarios/clusters/rtx3090x8.yaml").out,
            panpipe("check --links --json " + scenario).out);
}

TEST(CheckCluster, WhatNeedsAModelIsRefused) {
  const std::string file = "scenarios/clusters/dgx-a100-80g.yaml";
  EXPECT_EQ(refusal_of("check --costs " + file),
            "error: " + file + " is a cluster file: --costs, --operators and --units need a scenario, which names a model\n");
  EXPECT_THAT(refusal_of("check " + file + " --set nodes=0"), testing::StartsWith("--set nodes=0: error: "));
}

}  // namespace
}  // namespace panpipe::test
