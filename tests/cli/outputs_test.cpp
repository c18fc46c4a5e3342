// Where a call writes: never over its own input, never in place of a device, and standard output whole or with an error. Numbers
// that are none never leave a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";
const std::string kOrder = "schedule 1f1b --ranks 2 --microbatches 2 --csv -o ";
const std::string kPiper =
    "import piper scenarios/examples/piper-input.json --devices 4 --memory '4 GB' --bandwidth '25 GB/s' --microbatches 16 -o ";
const std::string kScenario =
    "panpipe: 1\ncluster: {devices: 2, memory: 8 GiB, link: {latency: 1 us, bandwidth: 10 GB/s}}\n"
    "workload: {layers: layers.yaml}\nbatch: {micro: 1, microbatches: 4}\n";
const std::string kLayers =
    "panpipe: 1\nkind: layers\nsource: made up\nlayers:\n"
    "  - {name: a, forward: 1 ms, backward: 2 ms, parameters: 1 MB, saved: 1 MB, output: 1 MB}\n"
    "  - {name: b, forward: 1 ms, backward: 2 ms, parameters: 1 MB, saved: 1 MB, output: 1 MB}\n";

std::string would_replace(const std::string& output, const std::string& input, const std::string& what) {
  return "error: the output " + output + " would replace the input " + input + "\n  help: choose another " + what + " with -o\n";
}

void expect_refused(const std::string& arguments, const std::string& err) {
  const Outcome run = panpipe(arguments);
  EXPECT_EQ(run.exit_code, 2) << arguments;
  EXPECT_EQ(run.err, err) << arguments;
  EXPECT_EQ(run.out, "") << arguments << ": said before anything is computed";
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// A folder with a scenario of two measured layers.
std::string small_scenario() {
  const std::string folder = temporary_folder();
  write_file(folder + "/scenario.yaml", kScenario);
  write_file(folder + "/layers.yaml", kLayers);
  return folder;
}

TEST(Outputs, APredictionDoesNotReplaceItsScenario) {
  const std::string folder = small_scenario(), file = folder + "/scenario.yaml";
  ASSERT_EQ(panpipe("estimate " + file).exit_code, 0) << panpipe("estimate " + file).err;
  for (const std::string verb : {"estimate ", "simulate "})
    expect_refused(verb + file + " -o " + folder, would_replace(folder + "/scenario.yaml", file, "folder"));
  expect_refused("estimate " + file + " -o " + folder + "/x/..", would_replace(folder + "/x/../scenario.yaml", file, "folder"));
  EXPECT_EQ(read_file(file), kScenario);
  EXPECT_EQ(names_in(folder), (std::set<std::string>{"scenario.yaml", "layers.yaml"}));
}

TEST(Outputs, APredictionDoesNotReplaceThePlanThatItReads) {
  const std::string folder = small_scenario(), file = folder + "/scenario.yaml", other = temporary_folder();
  ASSERT_EQ(panpipe("plan " + file + " -o " + other + "/plan.yaml").exit_code, 0);
  expect_refused("estimate " + file + " --plan " + other + "/plan.yaml -o " + other,
                 would_replace(other + "/plan.yaml", other + "/plan.yaml", "folder"));
  EXPECT_EQ(names_in(other), std::set<std::string>{"plan.yaml"});
  EXPECT_EQ(panpipe("estimate " + file + " --plan " + other + "/plan.yaml -o " + other + "/new").exit_code, 0);
}

// Of 12,000 microbatches on eight ranks: 2 x 8 passes and 2 x 2 x 7 ends of transfers each, 44, and the rest of the step: 528,010
// spans, more than are written unasked. The trace of the shorter step that lay there is gone.
TEST(Outputs, SpansOfAVeryLongStepAreWrittenOnRequest) {
  const std::string folder = temporary_folder(), short_step = "estimate " + kGpt2 + " --set schedule=1f1b -o " + folder;
  ASSERT_EQ(panpipe(short_step).exit_code, 0);
  ASSERT_TRUE(std::filesystem::exists(folder + "/trace.json"));
  const Outcome run = panpipe(short_step + " --set batch.microbatches=12000");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "written to " + folder +
                         ": result.json, scenario.yaml, plan.yaml, report.txt, schedule.svg\n"
                         "note: the step has 528010 spans, more than 500000: result.json is without them and trace.json is not "
                         "written; --all-spans writes both, about 251.8 MiB\n");
  EXPECT_FALSE(std::filesystem::exists(folder + "/trace.json"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/schedule.svg"));
  EXPECT_LT(std::filesystem::file_size(folder + "/result.json"), 100'000U);
}

TEST(Outputs, NoVerbReplacesItsInput) {
  const std::string folder = small_scenario(), file = folder + "/scenario.yaml", layers = folder + "/layers.yaml";
  fs::create_symlink("layers.yaml", folder + "/link");
  expect_refused("plan " + file + " -o " + file, would_replace(file, file, "file"));
  expect_refused("plan " + file + " -o " + folder + "/link", would_replace(folder + "/link", layers, "file"));
  write_file(folder + "/topo.txt", read_file("costmodel/cluster/data/topo-rtx3090x8.txt"));
  const std::string topo = folder + "/topo.txt";
  expect_refused("import topology " + topo + " --device rtx-3090 -o " + topo, would_replace(topo, topo, "file"));
  // The second file of an import, too.
  fs::copy_file("../scenarios/examples/piper-input.json", folder + "/x-layers.yaml");
  const std::string piper = folder + "/x-layers.yaml";
  expect_refused(
      "import piper " + piper + " --devices 4 --memory '4 GB' --bandwidth '25 GB/s' --microbatches 16 -o " + folder + "/x.yaml",
      would_replace(piper, piper, "file"));
  ASSERT_EQ(panpipe(kOrder + folder + "/order.csv").exit_code, 0);
  const std::string order = folder + "/order.csv", text = read_file(order);
  expect_refused("schedule " + order + " --csv --torch -o " + order, would_replace(order, order, "file"));
  EXPECT_EQ(read_file(order), text);
  fs::rename(file, folder + "/sweep.csv");
  expect_refused("sweep " + folder + "/sweep.csv --over batch.micro=1,2 -o " + folder,
                 would_replace(folder + "/sweep.csv", folder + "/sweep.csv", "folder"));
  EXPECT_EQ(read_file(folder + "/sweep.csv"), kScenario);
  EXPECT_FALSE(fs::exists(folder + "/grid.json"));
}

TEST(Outputs, ResultsAreNotReplacedByWhatIsMadeOfThem) {
  const std::string folder = small_scenario(), out = folder + "/out", result = out + "/result.json";
  ASSERT_EQ(panpipe("estimate " + folder + "/scenario.yaml -o " + out).exit_code, 0);
  const std::string text = read_file(result);
  for (const std::string& call : {"compare " + out + " " + out, "report " + out})
    expect_refused(call + " -o " + result, would_replace(result, result, "file"));
  EXPECT_EQ(read_file(result), text);
  // The same command again is no fault: it reads nothing of what it wrote.
  EXPECT_EQ(panpipe("estimate " + folder + "/scenario.yaml -o " + out).exit_code, 0);
}

TEST(Outputs, AnImportOfTwoFilesNeedsAFile) {
  const std::string fifo = temporary_folder() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  expect_refused(kPiper + fifo, "error: -o " + fifo +
                                    ": this is no file, and the layers go into a file beside the scenario\n"
                                    "  help: choose another file with -o\n");
}

TEST(StandardOutput, WhatCannotBeWrittenIsOneErrorOfEveryVerb) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const std::string file = small_scenario() + "/scenario.yaml";
  for (const std::string& arguments :
       {std::string("--help"), std::string("--version"), std::string("help"), std::string(""), std::string("simulate --help"),
        std::string("schedule --list"), "check " + file, "estimate --json " + file, "simulate " + file, "plan --json " + file,
        "sweep --csv --over batch.micro=1,2 " + file}) {
    const Outcome run = panpipe(arguments, "/dev/full");
    EXPECT_EQ(run.exit_code, 3) << arguments;
    EXPECT_EQ(run.err, "panpipe: this machine cannot: cannot write to standard output: No space left on device\n") << arguments;
    const Outcome closed = panpipe(arguments, "&-");
    EXPECT_EQ(closed.exit_code, 3) << arguments;
    EXPECT_EQ(closed.err, "panpipe: this machine cannot: cannot write to standard output: it is closed\n") << arguments;
  }
}

TEST(StandardOutput, FilesAreWrittenWhateverBecomesOfIt) {
  const std::string folder = small_scenario(), out = folder + "/out";
  const Outcome run = panpipe("estimate " + folder + "/scenario.yaml -o " + out, "&-");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("written to " + out));
  EXPECT_TRUE(fs::exists(out + "/result.json"));
}

TEST(StandardOutput, NothingToReportNeedsNoStandardOutput) {
  const Outcome run = panpipe(kOrder + temporary_folder() + "/order.csv", "&-");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
}

TEST(StandardOutput, AReaderThatLeftEndsTheCallQuietly) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  constexpr int kNumber = 9;  // a shell redirects to numbers of one digit
  ASSERT_EQ(dup2(ends[1], kNumber), kNumber);
  close(ends[0]);
  close(ends[1]);
  for (const std::string& arguments : {std::string("--help"), "estimate " + kGpt2}) {
    const Outcome run = panpipe(arguments, "&9");
    EXPECT_EQ(run.exit_code, 141) << arguments;
    EXPECT_EQ(run.err, "") << arguments;
  }
  close(kNumber);
}

void expect_out_of_range(const std::string& arguments, const std::string& message) {
  const Outcome run = panpipe(arguments);
  EXPECT_EQ(run.exit_code, 2) << arguments << "\n" << run.out;
  EXPECT_THAT(run.err, HasSubstr(message)) << arguments;
  EXPECT_EQ(run.out, "") << arguments;
}

TEST(FiniteTimes, ValuesFarFromAnythingThatExistsAreErrorsWithTheirPlace) {
  const std::string folder = small_scenario(), file = folder + "/scenario.yaml", framework = folder + "/megatron.yaml";
  std::string text = read_file("../scenarios/frameworks/megatron.yaml");
  const std::string factor = "allocator_factor: {value: ";
  text.replace(text.find(factor), text.find(',', text.find(factor)) - text.find(factor), factor + "1e308");
  write_file(framework, text);
  for (const std::string verb : {"check ", "estimate ", "simulate ", "plan "}) {
    expect_out_of_range(
        verb + kGpt2 + " --set 'cluster.wiring.host.latency=1e300 s'",
        "--set cluster.wiring.host.latency=1e300 s: error: '1e300 s' is out of range; a time is between 1e-18 s and 1e9 s");
    expect_out_of_range(verb + kGpt2 + " --set 'cluster.wiring.host.copy=1e-300 GB/s'",
                        "'1e-300 GB/s' is out of range; a bandwidth is between 1e-9 B/s and 1e6 TB/s");
    expect_out_of_range(verb + kGpt2 + " --set 'cluster.device.peak.fp32=1e-300 TFLOP/s'",
                        "'1e-300 TFLOP/s' is out of range; a compute rate is between 1 FLOP/s and 1e15 PFLOP/s");
    expect_out_of_range(verb + kGpt2 + " --set framework=" + framework,
                        framework + ":22:27: error: '1e308' is out of range; a number is between 1e-38 and 1e38");
  }
  write_file(folder + "/layers.yaml", kLayers + "  - {name: c, forward: 1e308 s, backward: 2 ms}\n");
  expect_out_of_range("estimate " + file, "layers.yaml:7:");
  expect_out_of_range("schedule 1f1b --ranks 2 --microbatches 2 --costs F=1e308,I=1e308,W=1e308",
                      "not 'F=1e308'; '1e308' is out of range; a number is between 1e-38 and 1e38");
}

TEST(FiniteTimes, MeasuredRunsAndOtherToolsFilesAreBoundToo) {
  const std::string folder = temporary_folder(), runs = folder + "/runs.csv", piper = folder + "/piper.json",
                    result = folder + "/result.json";
  for (const auto& [time, why] : {std::pair("1e-320", "'1e-320' is out of range; a number is between 1e-38 and 1e38"),
                                  std::pair("1e308", "'1e308' is out of range; a number is between 1e-38 and 1e38"),
                                  std::pair("1e12", "'1e12 s' is out of range; a time is between 1e-18 s and 1e9 s")}) {
    write_file(runs, std::string("id,gpu,step_s\na,A100-80G-SXM,") + time + "\n");
    for (const std::string& verb : {"validate " + runs, "fit " + runs + " --device A100-80G-SXM"})
      expect_out_of_range(verb, std::string("runs.csv:2:16: error: step_s: ") + why);
  }
  std::string text = read_file("../scenarios/examples/piper-input.json");
  const std::string key = "\"timePerSample\": ";
  text.replace(text.find(key), key.size(), key + "1e12, \"x\": ");
  write_file(piper, text);
  expect_out_of_range("import piper " + piper + " -o " + folder + "/new.yaml",
                      "is out of range; a time is between 1e-18 s and 1e9 s");
  EXPECT_FALSE(fs::exists(folder + "/new.yaml"));
  text = answer_of("estimate --json " + small_scenario() + "/scenario.yaml");
  const std::string metric = "\"step_time_s\": ";
  text.replace(text.find(metric), metric.size(), metric + "1e308, \"x\": ");
  write_file(result, text);
  for (const std::string& call : {"compare " + result + " " + result, "report " + result + " -o " + folder + "/page.html"})
    expect_out_of_range(call, result + ": metrics.step_time_s is out of range: 1e+308");
}

}  // namespace
}  // namespace panpipe::test
