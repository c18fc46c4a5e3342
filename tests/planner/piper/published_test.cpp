// The published inputs, where they are given: PANPIPE_PIPER_INPUTS names a folder with bert32a100.json, gnmt.json (resnet.json)
// of github msr-fiddle/piper at d7fc8cf. They may not be copied; what is known of them stands in published.csv.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sstream>

#include "planner/piper/piper_file.hpp"
#include "planner/piper/problem_of.hpp"
#include "planner/piper/solve.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::planner::piper {
namespace {

namespace fs = std::filesystem;

struct Setting {
  std::string input, devices, microbatches, memory, bandwidth, variant, published, optimum;
};

std::vector<Setting> settings() {
  std::ifstream file("planner/piper/published.csv");
  std::vector<Setting> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.rfind("input,", 0) == 0) continue;
    std::stringstream cells(line + ",");
    Setting row;
    for (std::string* cell :
         {&row.input, &row.devices, &row.microbatches, &row.memory, &row.bandwidth, &row.variant, &row.published, &row.optimum})
      std::getline(cells, *cell, ',');
    rows.push_back(row);
  }
  return rows;
}

// The problem as the import makes it, but with the memory unrounded, as the published runs have it.
PlanningProblem problem_of(const PiperFile& file, const Setting& row) {
  ImportOptions options;
  options.devices = std::stoi(row.devices);
  options.microbatches = std::stoi(row.microbatches);
  options.memory = Bytes(std::llround(std::stod(row.memory)));
  options.bandwidth = Bandwidth(std::stod(row.bandwidth));
  if (row.variant == "no_dp") options.most_data = 1;
  if (row.variant == "no_tp") options.most_tensor = 1;
  options.recompute = row.variant != "no_recompute";
  const Imported imported = import_piper(file, options, "layers.yaml");
  test::scratch().write("layers.yaml", imported.layers);
  const Experiment experiment(parse_scenario(imported.scenario, "in.yaml", test::scratch().path().string()));
  PlanningProblem problem = pose(experiment, Objective::TimePerSample).problem;
  problem.memory = std::stod(row.memory);
  return problem;
}

// Those that take long are left to PANPIPE_PIPER_ALL=1.
bool is_slow(const Setting& row) { return row.input == "gnmt" && std::stod(row.memory) < 2e9 && row.optimum != "none"; }

TEST(Published, FeasibilityAndOptimaAgree) {
  const char* inputs = std::getenv("PANPIPE_PIPER_INPUTS");
  if (!inputs) GTEST_SKIP() << "PANPIPE_PIPER_INPUTS is not set: a folder with the published inputs";
  std::string last;
  PiperFile file;
  int compared = 0;
  for (const Setting& row : settings()) {
    const fs::path path = fs::path(inputs) / (row.input == "bert32" ? "bert32a100.json" : row.input + ".json");
    if (!fs::exists(path) || (is_slow(row) && !std::getenv("PANPIPE_PIPER_ALL"))) continue;
    if (row.input != last) file = read_piper_file(path.string());
    last = row.input;
    SolveOptions options;
    options.threads = 2;
    const PlanningProblem problem = problem_of(file, row);
    const Solution found = least_load(problem, options);
    const std::string at = row.input + " K=" + row.devices + " N=" + row.microbatches + " M=" + row.memory + " " + row.variant;
    EXPECT_TRUE(found.proved) << at;
    for (const std::string* known : {&row.published, &row.optimum}) {
      if (known->empty()) continue;
      ASSERT_EQ(found.stages.empty(), *known == "none") << at;
      if (*known == "none") continue;
      EXPECT_LE(found.objective, std::stod(*known) * (1 + 1e-9)) << at;
    }
    ++compared;
    if (row.optimum.empty() || row.optimum == "none") continue;
    EXPECT_GE(found.objective, std::stod(row.optimum) * (1 - 1e-9)) << at;
  }
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace panpipe::planner::piper
