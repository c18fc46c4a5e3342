// Reports of `panpipe doctor` about machines, simulated ones included, and `--version`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/doctor_text.hpp"
#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kGib = std::int64_t{1} << 30;

// Everything is here: two GPUs, NCCL, SimGrid, Ceres, LibTorch with CUDA.
cli::Machine whole_machine() {
  cli::Machine machine;
  machine.data_folder = "/opt/panpipe/share/panpipe";
  machine.data_why = "beside the installed program";
  machine.data_found = true;
  machine.simgrid_version = "3.32";
  machine.ceres = true;
  machine.executor = "/opt/panpipe/lib/panpipe/panpipe-exec";
  machine.executor_nccl = true;
  machine.libtorch = "/venv/torch";
  machine.libtorch_version = "2.11.0+cu130";
  machine.libtorch_why = "VIRTUAL_ENV=/venv";
  machine.libtorch_wanted = "2.11.0";
  machine.libtorch_cuda = true;
  machine.gpus.devices = {{"NVIDIA H100", 80 * kGib, 79 * kGib}, {"NVIDIA H100", 80 * kGib, 79 * kGib}};
  machine.gpus.visible = 2;
  machine.gpus.driver = "580.65.06";
  machine.gpus.cuda = "13.0";
  machine.nccl = "/venv/nvidia/nccl/lib/libnccl.so.2";
  machine.nccl_version = "2.27.5";
  machine.cores = machine.cores_of_machine = 16;
  machine.memory = machine.memory_of_machine = 128 * kGib;
  machine.memory_available = 100 * kGib;
  machine.shared_memory = machine.shared_memory_free = 64 * kGib;
  return machine;
}

TEST(Doctor, OnAMachineWithEverythingEveryVerbWorks) {
  EXPECT_EQ(cli::doctor_text(whole_machine(), {}),
            "panpipe 0.1.0 finds on this machine\n"
            "  data      /opt/panpipe/share/panpipe (beside the installed program)\n"
            "  SimGrid   3.32, its module loads\n"
            "  Ceres     built in\n"
            "  executor  /opt/panpipe/lib/panpipe/panpipe-exec\n"
            "  LibTorch  2.11.0+cu130, /venv/torch (VIRTUAL_ENV=/venv)\n"
            "  GPUs      2 x NVIDIA H100 (80 GiB, 79 GiB free); driver 580.65.06 for CUDA up to 13.0\n"
            "  NCCL      2.27.5, /venv/nvidia/nccl/lib/libnccl.so.2\n"
            "  cores     16 usable\n"
            "  load      0.0 on 16 cores\n"
            "  memory    128 GiB usable, 100 GiB available; /dev/shm 64 GiB, 64 GiB free\n"
            "  ports     a port of 127.0.0.1 can be opened\n"
            "\n"
            "verbs that work here\n"
            "  check, estimate, plan, validate    yes\n"
            "  schedule, compare, report, import  yes\n"
            "  arena                              yes\n"
            "  simulate, sweep                    yes\n"
            "  fit                                yes\n"
            "  run, profile                       yes: transports local, gloo, nccl on 2 GPUs and the CPU\n");
  const json verbs = json::parse(cli::doctor_json(whole_machine()))["verbs"];
  for (const auto& [verb, answer] : verbs.items()) EXPECT_EQ(answer["works"], "yes") << verb;
}

// Each part that is missing takes away what stands on it, and nothing else; the remedy is named.
TEST(Doctor, WhatIsMissingTakesAwayWhatStandsOnIt) {
  const auto verbs = [](const cli::Machine& machine) { return json::parse(cli::doctor_json(machine))["verbs"]; };

  cli::Machine machine = whole_machine();
  machine.simgrid_problem = "cannot load panpipe_simgrid.so: libsimgrid.so.3.32: cannot open shared object file";
  EXPECT_EQ(verbs(machine)["simulate"]["text"], "simulate --backend flow; sweep with --engine estimate");
  EXPECT_EQ(verbs(machine)["estimate"]["works"], "yes");
  EXPECT_THAT(cli::doctor_text(machine, {}),
              HasSubstr("  SimGrid   cannot load panpipe_simgrid.so: libsimgrid.so.3.32: cannot open shared object file\n"
                        "            to get it: install the SimGrid that this program was built with (libsimgrid-dev)\n"));

  machine = whole_machine();
  machine.libtorch.clear();
  machine.libtorch_looked = {"VIRTUAL_ENV=/venv: torch 2.9.0 there"};
  EXPECT_EQ(verbs(machine)["run"]["works"], "no");
  EXPECT_EQ(verbs(machine)["profile"]["text"], "the executor finds no LibTorch");
  EXPECT_THAT(verbs(machine)["run"]["rest"].get<std::string>(), HasSubstr("torch package 2.11.0"));
  EXPECT_THAT(cli::doctor_text(machine, {}), HasSubstr("  LibTorch  none that fits: VIRTUAL_ENV=/venv: torch 2.9.0 there\n"));

  machine = whole_machine();
  machine.executor.clear();
  EXPECT_EQ(verbs(machine)["run"]["text"], "this build has no executor");

  machine = whole_machine();
  machine.gpus = {};
  machine.gpus.problem = "there is no NVIDIA driver";
  EXPECT_EQ(verbs(machine)["run"]["works"], "partly");
  EXPECT_EQ(verbs(machine)["run"]["text"], "transports local, gloo on the CPU (16 cores, 128 GiB)");
  EXPECT_EQ(verbs(machine)["run"]["rest"], "--transport nccl needs a GPU");

  machine = whole_machine();
  machine.gpus.visible = 0;  // CUDA_VISIBLE_DEVICES is empty
  EXPECT_EQ(verbs(machine)["run"]["rest"], "--transport nccl needs a GPU that programs may see");
  EXPECT_THAT(cli::doctor_text(machine, {}), HasSubstr("; programs see 0 of them (CUDA_VISIBLE_DEVICES, /dev/nvidia*)\n"));

  machine = whole_machine();
  machine.gpus.driver = "550.54.15";
  machine.gpus.cuda = "12.4";
  EXPECT_EQ(verbs(machine)["run"]["works"], "partly");
  EXPECT_EQ(verbs(machine)["run"]["text"], "transports local, gloo on the CPU (16 cores, 128 GiB)");
  EXPECT_EQ(verbs(machine)["run"]["rest"],
            "--transport nccl needs a driver for the CUDA release of the torch package: see above");
  EXPECT_THAT(
      cli::doctor_text(machine, {}),
      HasSubstr("driver 550.54.15 for CUDA up to 12.4; not usable: the NVIDIA driver 550.54.15 supports CUDA up to 12.4, and "
                "this torch "
                "package is built with CUDA 13.0\n"
                "            to get it: install a driver of at least 580, or a torch package that is built with CUDA 12: "
                "PANPIPE_TORCH_INDEX=URL tools/setup with an index of such packages, then make build (docs/installing.md)\n"));

  machine = whole_machine();
  machine.ports_problem = "Operation not permitted";
  EXPECT_EQ(verbs(machine)["run"]["text"], "transports local on 2 GPUs and the CPU");

  machine = whole_machine();
  machine.ceres = false;
  EXPECT_EQ(verbs(machine)["fit"]["works"], "partly");

  machine = whole_machine();
  machine.data_found = false;
  for (const char* verb : {"check", "estimate", "simulate", "plan"}) EXPECT_EQ(verbs(machine)[verb]["works"], "partly") << verb;
  EXPECT_EQ(verbs(machine)["schedule"]["works"], "yes");
}

// Half of the cores is where it begins: 8 of 16.
TEST(Doctor, OtherWorkOnTheCoresIsReported) {
  cli::Machine machine = whole_machine();
  machine.load = 7.9;
  EXPECT_THAT(cli::doctor_text(machine, {}), HasSubstr("\n  load      7.9 on 16 cores\n"));
  machine.load = 8;
  EXPECT_THAT(
      cli::doctor_text(machine, {.width = 200}),
      HasSubstr("\n  load      8.0 on 16 cores over the last minute: other work keeps them busy, and what run, profile and "
                "selftest measure now takes too long\n"));
}

TEST(Doctor, ItsLinesFitTheWidth) {
  cli::Machine machine = whole_machine();
  machine.libtorch_looked = {"VIRTUAL_ENV=/venv: torch 2.9.0 there", "CONDA_PREFIX=/opt/conda: no torch in it"};
  machine.libtorch.clear();
  for (const int width : {50, 80, 100}) {
    std::istringstream lines(cli::doctor_text(machine, {.width = width}));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
  }
}

// Of this machine: what is compared does not depend on which it is.
TEST(Doctor, OfThisMachineTextAndDocumentAgree) {
  const Outcome text = panpipe("doctor"), document = panpipe("doctor --json");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  ASSERT_EQ(document.exit_code, 0) << document.err;
  const json found = json::parse(document.out);
  EXPECT_EQ(found["schema"], "panpipe-doctor/1");
  for (const char* part :
       {"data", "simgrid", "ceres", "executor", "libtorch", "gpus", "nccl", "cores", "load", "memory", "ports"})
    EXPECT_TRUE(found["found"].contains(part)) << part;
  for (const char* verb : {"check", "schedule", "estimate", "simulate", "plan", "sweep", "compare", "report", "profile", "import",
                           "validate", "fit", "run"})
    EXPECT_TRUE(found["verbs"].contains(verb)) << verb;
  EXPECT_TRUE(found["found"]["ports"]["loopback"]);
  EXPECT_GE(found["found"]["cores"]["usable"], 1);
  EXPECT_THAT(text.out, HasSubstr("\n  cores     " + found["found"]["cores"]["text"].get<std::string>() + "\n"));
  EXPECT_THAT(text.out, HasSubstr("  data      " + found["found"]["data"]["folder"].get<std::string>() + " ("));
}

TEST(Doctor, ADataFolderThatIsMissingIsNamedWithTheVariable) {
  const Outcome run = panpipe_after("PANPIPE_DATA=/nowhere", "doctor");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out,
              HasSubstr("  data      no folder /nowhere (PANPIPE_DATA names it)\n            to get it: set PANPIPE_DATA"));
  EXPECT_THAT(run.out, HasSubstr("  check, estimate, plan, validate    partly: only scenarios whose files you have"));
}

// As NVML's functions are declared by NVIDIA; here the stand-in GPU's library has them.
TEST(Doctor, GpusAreAskedOfTheDriver) {
  const Outcome run = panpipe_after(
      "LD_PRELOAD=" PANPIPE_STAND_IN_NVML " STAND_IN_GPUS=2 STAND_IN_MEMORY_MIB=8192 STAND_IN_DRIVER=550.54.15", "doctor --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json gpus = json::parse(run.out)["found"]["gpus"];
  EXPECT_EQ(gpus["found"], 2);
  EXPECT_EQ(gpus["driver"], "550.54.15");
  EXPECT_EQ(gpus["cuda"], "12.4");
  for (const json& device : gpus["devices"]) {
    EXPECT_EQ(device["name"], "Stand-in GPU");
    EXPECT_EQ(device["memory_bytes"], 8 * kGib);
    EXPECT_EQ(device["free_bytes"], 6 * kGib);
  }
  EXPECT_THAT(gpus["text"].get<std::string>(),
              StartsWith("2 x Stand-in GPU (8 GiB, 6 GiB free); driver 550.54.15 for CUDA up to 12.4"));
}

TEST(Version, NamesWhatIsBuiltIn) {
  const Outcome option = panpipe("--version"), verb = panpipe("version");
  EXPECT_EQ(option.exit_code, 0);
  EXPECT_EQ(option.out, verb.out);
  EXPECT_THAT(option.out, StartsWith("panpipe 0.1.0\n"));
  for (const char* part : {"build", "SimGrid", "executor", "Ceres", "CLI11", "fmt", "nlohmann_json", "yaml-cpp"})
    EXPECT_THAT(option.out, testing::ContainsRegex("\n  " + std::string(part) + " +[a-zA-Z0-9]"));
}

}  // namespace
}  // namespace panpipe::test
