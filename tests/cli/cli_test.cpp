// Promises of the command line: exit codes, streams, documents, whole messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/input/reader.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";
const std::string kNoBridge = "scenarios/examples/gpt2-large-rtx3090x8-nobridge.yaml";
const std::string kGpt3 = "scenarios/examples/gpt3-175b-a100x64.yaml";

TEST(CommandLine, WithoutArgumentsShowsTheVerbs) {
  const Outcome run = panpipe("");
  EXPECT_EQ(run.exit_code, 0);
  for (const char* verb : {"check", "schedule", "estimate", "simulate", "run"}) EXPECT_THAT(run.out, HasSubstr(verb));
  EXPECT_EQ(run.err, "");
}

TEST(CommandLine, EveryVerbsHelpStartsWithTwoExamples) {
  for (const std::string verb : {"check", "schedule", "estimate", "simulate"}) {
    const std::string run = answer_of(verb + " --help");
    const auto examples = run.find("Examples:\n  panpipe " + verb);
    ASSERT_NE(examples, std::string::npos) << run;
    EXPECT_LT(examples, run.find("Options:")) << run;
    EXPECT_NE(run.find("  panpipe " + verb, examples + 14), std::string::npos) << run;
  }
}

TEST(CommandLine, TheFirstExampleOfRunIsForALaptop) {
  EXPECT_THAT(panpipe("run --help").out,
              StartsWith("Examples:\n  panpipe run scenarios/runs/gpt-small-cpu-x2.yaml --steps 10\n"));
  EXPECT_EQ(panpipe("check scenarios/runs/gpt-small-cpu-x2.yaml").exit_code, 0);
}

TEST(CommandLine, TheResultDocumentHasTheKeysThatToolsRelyOn) {
  for (const std::string verb : {"estimate", "simulate"}) {
    const json document = json::parse(answer_of(verb + " --json " + kGpt2));
    EXPECT_EQ(document["schema"], "panpipe-result/1");
    EXPECT_EQ(document["kind"], verb == "estimate" ? "estimated" : "simulated");
    for (const char* key : {"context", "metrics", "repetitions"}) EXPECT_TRUE(document.contains(key)) << key;
    EXPECT_FALSE(document.contains("timeline") && !document["timeline"].empty());
    for (const char* key :
         {"step_time_s", "compute_s", "exposed_communication_s", "bubble_step", "bubble_span", "peak_memory_bytes",
          "memory_limit_bytes", "fits", "model_flops", "mfu", "samples_per_s", "per_device"})
      EXPECT_TRUE(document["metrics"].contains(key)) << key;
    EXPECT_EQ(document["metrics"]["per_device"].size(), 8u);
    EXPECT_EQ(document["metrics"].contains("contention_s"), verb == "simulate");
  }
}

TEST(CommandLine, TheTimelineIsThereWhenAskedFor) {
  const json timeline = json::parse(answer_of("estimate --json --timeline " + kGpt2))["timeline"];
  ASSERT_FALSE(timeline.empty());
  for (const char* key : {"device", "lane", "action", "microbatch", "stage", "start_s", "end_s"})
    EXPECT_TRUE(timeline[0].contains(key)) << key;
}

TEST(CommandLine, TwoRunsGiveTheSameBytesOutsideContext) {
  for (const std::string& arguments :
       {"estimate --json --timeline " + kGpt2, "simulate --json --timeline " + kGpt2, "simulate --json " + kGpt3}) {
    json first = json::parse(panpipe(arguments).out), second = json::parse(panpipe(arguments).out);
    first.erase("context");
    second.erase("context");
    EXPECT_EQ(first.dump(), second.dump()) << arguments;
  }
}

TEST(CommandLine, AFolderGetsResultTraceScenarioPlanAndReport) {
  const std::string folder = temporary_folder() + "/deep/er";
  const Outcome run = panpipe("simulate " + kGpt2 + " -o " + folder);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(json::parse(read_file(folder + "/result.json"))["timeline"].empty());
  EXPECT_FALSE(json::parse(read_file(folder + "/trace.json"))["traceEvents"].empty());
  // The resolved scenario and the plan are inputs again and predict the same.
  const std::string again = answer_of("simulate --json " + folder + "/scenario.yaml --plan " + folder + "/plan.yaml");
  EXPECT_EQ(json::parse(again)["metrics"], json::parse(read_file(folder + "/result.json"))["metrics"]);
}

TEST(CommandLine, AnUnwritableFolderIsTheMachinesFault) {
  const std::string file = temporary_folder() + "/file";
  write_file(file, "in the way\n");
  const Outcome run = panpipe("estimate " + kGpt2 + " -o " + file);
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("panpipe: this machine cannot: cannot make the folder " + file));
  EXPECT_THAT(run.err, HasSubstr("choose another folder with -o"));
}

TEST(CommandLine, CheckPrintsTheScenarioSoThatItLoadsAgain) {
  const std::string run = answer_of("check " + kGpt2 + " --set batch.micro=3");
  EXPECT_THAT(run, HasSubstr("--set"));
  const std::string file = temporary_folder() + "/resolved.yaml";
  write_file(file, run);
  const Outcome again = panpipe("check " + file);
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

TEST(CommandLine, CheckPrintsLinksAndCosts) {
  EXPECT_THAT(panpipe("check --links " + kGpt2).out, HasSubstr("GB/s"));
  EXPECT_TRUE(json::parse(panpipe("check --links --json " + kGpt2).out).is_object());
  EXPECT_THAT(panpipe("check --costs " + kGpt2).out, HasSubstr("formula"));
  EXPECT_TRUE(json::parse(panpipe("check --costs --json " + kGpt2).out).is_object());
}

TEST(CommandLine, WithoutAnExecutorRunReportsItAndWhatToDo) {
  // The executor is the program in the same folder: without it, the build has none or the program was copied alone.
  const std::string alone = temporary_folder();
  std::filesystem::copy(std::string(std::getenv("PANPIPE_BIN")) + "/panpipe", alone + "/panpipe");
  const std::string command = alone + "/panpipe run ../" + kGpt2 + " --steps 3 2>" + alone + "/err";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 3);
  EXPECT_EQ(read_file(alone + "/err"), "panpipe: this machine cannot: panpipe-exec is not in " + alone +
                                           ": either the program was copied without the files that lie beside it, or this build "
                                           "was made without LibTorch; then run "
                                           "make setup, which installs it into .venv, and make build\n");
  // The module that simulates is such a file too.
  const std::string simulate =
      "PANPIPE_DATA=" + data_directory() + " " + alone + "/panpipe simulate ../" + kGpt2 + " 2>" + alone + "/err";
  EXPECT_EQ(WEXITSTATUS(std::system(simulate.c_str())), 3);
  EXPECT_THAT(read_file(alone + "/err"), HasSubstr("panpipe_simgrid.so is not in " + alone +
                                                   ": either this build was configured "
                                                   "without SimGrid (PANPIPE_SIM=OFF), or the program was copied without"));
}

// `panpipe` next to an executor that only reports that it was started.
class WithExecutor : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy(std::string(std::getenv("PANPIPE_BIN")) + "/panpipe", folder_ + "/panpipe");
    write_file(folder_ + "/panpipe-exec", "#!/bin/sh\necho started >&2\n");
    std::filesystem::permissions(folder_ + "/panpipe-exec", std::filesystem::perms::owner_all);
  }
  // Without GPUs, whatever this machine has.
  Outcome run(const std::string& arguments, const std::string& environment = "") const {
    const std::string command = "cd .. && CUDA_VISIBLE_DEVICES= PANPIPE_DATA=scenarios " + environment + " " + folder_ +
                                "/panpipe " + arguments + " >" + folder_ + "/out 2>" + folder_ + "/err";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read_file(folder_ + "/out"), read_file(folder_ + "/err")};
  }
  const std::string folder_ = temporary_folder();
};

TEST_F(WithExecutor, RanksThatMemoryDoesNotHoldAreRefusedBeforeAnyStarts) {
  const std::string refused =
      "panpipe: this machine cannot: scenarios/examples/gpt3-175b-a100x64.yaml: no GPU here: 64 ranks(, threads of one "
      "process,)? run "
      "on the CPU, [0-9]+ cores?; they need about [0-9]+ GiB \\(an estimate; the largest rank [0-9.]+ GiB\\), and this host has "
      "[0-9.]+ [GM]iB\\. Choose fewer layers, a smaller model or fewer ranks with --set, a machine with more memory or GPUs, or "
      "--allow-overcommit to run all the same\n";
  const auto world = [](int rank) {
    const std::string number = std::to_string(rank);
    return "RANK=" + number + " LOCAL_RANK=" + number + " WORLD_SIZE=64 LOCAL_WORLD_SIZE=64";
  };
  for (const auto& [arguments, environment] :
       {std::pair<std::string, std::string>{"", ""}, {" --transport local", ""}, {"", world(0)}}) {
    const Outcome answer = run("run " + kGpt3 + arguments, environment);
    EXPECT_EQ(answer.exit_code, 3);
    EXPECT_THAT(answer.err, testing::MatchesRegex(refused));
  }
  const Outcome other = run("run " + kGpt3, world(1));
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_EQ(other.err, "") << "rank 0 speaks for its host";

  const Outcome allowed = run("run " + kGpt3 + " --transport local --allow-overcommit");
  EXPECT_EQ(allowed.exit_code, 0);
  EXPECT_THAT(allowed.err,
              testing::MatchesRegex("panpipe: no GPU here: 64 ranks, threads of one process, run on the CPU, .*\nstarted\n"));
}

TEST_F(WithExecutor, RanksThatWouldHaveHadGpusAreReportedOfOnce) {
  const std::string reported =
      "panpipe: no GPU here: 2 ranks run on the CPU, [0-9]+ cores?; they need about [0-9.]+ [GM]iB of [0-9.]+ [GM]iB(\\. There "
      "are "
      "more ranks "
      "than cores: they take turns, so a step takes correspondingly longer)?\n";
  const std::string arguments =
      "run scenarios/examples/gpt2-large-rtx3090x8.yaml --set 'workload={model: gpt, layers: 2, hidden: 256, "
      "heads: 4, vocabulary: 2048, sequence: 128}' --set parallel.pipeline=2";
  EXPECT_THAT(run(arguments).err, testing::ContainsRegex("^" + reported));
  const std::string world = " LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 ";
  EXPECT_THAT(run(arguments, world + "RANK=0 LOCAL_RANK=0").err, testing::MatchesRegex(reported + "started\n"));
  EXPECT_EQ(run(arguments, world + "RANK=1 LOCAL_RANK=1").err, "started\n");
  EXPECT_EQ(run(arguments + " --device cpu --threads 1 --transport local --set parallel.pipeline=1").err, "started\n")
      << "as it was asked for";
}

TEST_F(WithExecutor, ASmallRunOnProcessorsStartsWithoutAWord) {
  const std::string one = " scenarios/runs/gpt-small-cpu-x2.yaml --set cluster.devices=1 --transport local";
  EXPECT_EQ(run("run" + one).err, "started\n");
  EXPECT_EQ(run("profile --ranks 1" + one).err, "started\n");
  for (const std::string verb : {"run", "profile --ranks 1"})
    EXPECT_THAT(
        run(verb + one + " --threads 99999").err,
        testing::MatchesRegex("panpipe: 1 rank of 99999 threads runs on the CPU, [0-9]+ cores?; it needs about [0-9.]+ [GM]iB of "
                              "[0-9.]+ [GM]iB\\. There are more ranks than cores: they take turns, so a step takes "
                              "correspondingly longer\nstarted\n"))
        << verb;
}

// One cell of them may have what the others lack.
TEST(CommandLine, DevicesWithoutRatesAreRefusedByCell) {
  const Outcome some = panpipe(
      "sweep --csv --over cluster=clusters/rtx3090x8.yaml," +
      std::string(
          "'{devices: 8, memory: 4 GiB, link: {latency: 60 us, bandwidth: 2 GB/s}}' scenarios/runs/gpt-small-cpu-x2.yaml"));
  EXPECT_THAT(some.out, HasSubstr("refused")) << some.err;
}

TEST(CommandLine, RanksThatOutnumberTheProfiledCoresAreReportedOf) {
  const std::string scenario = "scenarios/runs/gpt-small-cpu-x2.yaml", file = temporary_folder() + "/profile.yaml";
  const Experiment experiment(load_scenario("../" + scenario));
  Profile profile;
  profile.measured = {{"cores", "2"}, {"ranks", "2"}, {"threads", "1"}, {"device", "cpu"}};
  profile.transfers.push_back({"gloo", 0, 1, {{{Bytes(0), micros(60)}, {mib(1), micros(560)}}}});
  for (const UnitCost& unit : experiment.model.units(0).units)
    profile.units.push_back(
        {unit.name, unit.structure, millis(1), millis(2), millis(1), millis(1), Bytes(100), {}, Bytes(40), Bytes(7), 0, 3});
  write_file(file, to_yaml(profile));
  for (const std::string verb : {"estimate ", "simulate --backend flow ", "plan --method pfeife "}) {
    const std::string arguments = verb + scenario + " --set profile=" + file;
    EXPECT_EQ(panpipe(arguments).err, "") << verb << "two ranks, two cores";
    EXPECT_EQ(
        panpipe(arguments + " --set cluster.devices=3").err,
        "panpipe: 3 ranks share a host of 2 cores, as the profile states it: each pass takes 1.30 times as long as if every "
        "rank had cores of its own. How long messages wait for a core is not predicted: a measured step is longer. For hosts "
        "with more cores change "
        "`cores` in " +
            file + "\n")
        << verb;
  }
}

TEST(CommandLine, TheContextNamesEveryInputFileByItsHash) {
  const json context = json::parse(answer_of("simulate --json " + kGpt2))["context"];
  std::string names;
  for (const auto& [path, hash] : context["hashes"].items()) {
    EXPECT_EQ(hash.get<std::string>().size(), 64u) << path;
    names += std::filesystem::path(path).filename().string() + " ";
  }
  for (const char* file : {"gpt2-large-rtx3090x8.yaml", "rtx3090x8.yaml", "rtx-3090.yaml", "eager.yaml"})
    EXPECT_THAT(names, HasSubstr(std::string(file) + " "));
  EXPECT_TRUE(context["libraries"].contains("fmt"));
}

// The step takes 0.8 GB; programs inherit the limit of this one.
TEST(CommandLine, TooLittleMemoryIsTheMachinesFault) {
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  struct rlimit little = before;
  little.rlim_cur = 400'000'000;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &little), 0);
  const Outcome run = panpipe("estimate " + kGpt2 + " --set schedule=1f1b --set batch.microbatches=100000");
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("panpipe: this machine cannot: not enough memory for this input\n"));
}

TEST(CommandLine, HelpIsAVerbToo) {
  EXPECT_EQ(panpipe("help").out, panpipe("--help").out);
  EXPECT_EQ(panpipe("help simulate").out, panpipe("simulate --help").out);
}

TEST(CommandLine, CheckPrintsAllThatIsAskedFor) {
  const Outcome both = panpipe("check --links --costs " + kGpt2);
  EXPECT_EQ(both.out, panpipe("check --links " + kGpt2).out + "\n" + panpipe("check --costs " + kGpt2).out);
}

TEST(CommandLine, OneKeyOfADeviceCanBeSet) {
  const Outcome run = panpipe("estimate --set 'cluster.device.memory=8 GiB' " + kGpt2);
  ASSERT_EQ(run.exit_code, 0) << run.err;  // a plan that does not fit is an answer
  EXPECT_THAT(run.out,
              HasSubstr("fits: no, device 1 needs 18.84 GiB of 7.90 GiB usable, 239 %, 10.95 GiB too much\n  activations "));
  EXPECT_FALSE(json::parse(panpipe("estimate --json --set 'cluster.device.memory=8 GiB' " + kGpt2).out)["metrics"]["fits"]);
}

TEST(Prediction, DevicesThatIdleAreNamed) {
  const std::string three = " --set parallel.pipeline=3 --set schedule=1f1b " + kGpt2;
  for (const std::string verb : {"estimate", "simulate"}) {
    EXPECT_THAT(panpipe(verb + three).out,
                HasSubstr("\nwarning: 5 of 8 devices are not used: 3-7; MFU and bubble leave them out\n"));
    EXPECT_THAT(panpipe(verb + " " + kGpt2).out, Not(HasSubstr("not used")));
  }
  EXPECT_EQ(json::parse(panpipe("estimate --json" + three).out)["context"]["unused_devices"], json({3, 4, 5, 6, 7}));
  EXPECT_EQ(json::parse(panpipe("estimate --json " + kGpt2).out)["context"]["unused_devices"], json::array());
  EXPECT_THAT(panpipe("check" + three).out,
              HasSubstr("# 3 stages on 3 devices: legal\n# warning: 5 of 8 devices are not used: 3-7\n"));
}

TEST(Prediction, BridgesPulledCostContentionThatOnlyTheSimulationSees) {
  const auto step = [](const std::string& arguments) { return json::parse(panpipe(arguments).out)["metrics"]; };
  const double estimated = step("estimate --json " + kNoBridge)["step_time_s"],
               simulated = step("simulate --json " + kNoBridge)["step_time_s"];
  EXPECT_GT(simulated, estimated * 1.0001);
  EXPECT_GT(step("simulate --json " + kNoBridge)["contention_s"].get<double>(), 0.0);
  EXPECT_GT(simulated, step("simulate --json " + kGpt2)["step_time_s"].get<double>());
}

// As DualPipe runs, with one microbatch from each end: stages 0 and 1 are a chain, 2 and 3 the other. A byte-order mark is
// skipped.
TEST(Prediction, AFileWhoseLastRankBeginsAtTheFarStageRunsFromBothEnds) {
  const std::string file = temporary_folder() + "/both-ends.csv";
  write_file(file,
             "\xEF\xBB\xBF"
             "0F0,3F0,3B0,0B0\n2F0,1F0,1B0,2B0\n");
  const json document = json::parse(answer_of("schedule --json " + file));
  EXPECT_EQ(document["chains"], json::parse("[[0, 1], [2, 3]]"));
  EXPECT_EQ(document["microbatches"], 2);
}

TEST(Prediction, TurnsThatWaitForEachOtherAreAnIllegalOrder) {
  const Outcome run = panpipe("schedule interleaved-1f1b --ranks 4 --microbatches 8 --option group=2 --json");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_FALSE(json::parse(run.out)["legal"].get<bool>());
  EXPECT_EQ(run.err,
            "interleaved-1f1b: note: turns of at least 4 microbatches, the last one too, always finish (option group)\n");
}

}  // namespace
}  // namespace panpipe::test
