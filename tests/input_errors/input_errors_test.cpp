// Every wrong input, with the whole message it must give: NAME.yaml or NAME.csv beside NAME.expected.
//
// A file is read as a scenario (.yaml) or a schedule (.csv). Comment lines at its top ask for more:
//   # --set KEY=VALUE      an override
//   # read as: layers      a table of measured layers
//   # read as: plan        a scenario, then its workload and plan
//   # read as: routes      a scenario, then the route of each pair of devices
//   # read as: schedule NAME RANKS MICROBATCHES [KEY=VALUE]...
// An .expected without a file beside it is the message for a file that does not exist.
// PANPIPE_UPDATE=1 rewrites the .expected files; read every one before committing it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/input/reader.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {
namespace {

namespace fs = std::filesystem;
const std::string kFolder = "input_errors/";

// Messages name files as they were given: all paths are relative to tests/.
std::vector<std::string> all_names() {
  fs::current_path(PANPIPE_TESTS);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const std::string suffix = entry.path().extension();
    if (suffix == ".yaml" || suffix == ".csv" || suffix == ".expected") names.insert(entry.path().stem());
  }
  return {names.begin(), names.end()};
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Request {
  std::string how = "scenario";
  std::vector<std::string> overrides;
};

Request request_of(const std::string& path) {
  Request request;
  std::istringstream lines(fs::is_regular_file(path) ? content(path) : "");
  for (std::string line; std::getline(lines, line) && line.rfind("# ", 0) == 0;) {
    if (line.rfind("# --set ", 0) == 0) request.overrides.push_back(line.substr(8));
    if (line.rfind("# read as: ", 0) == 0) request.how = line.substr(11);
  }
  return request;
}

void make_schedule_of(std::istringstream& words) {
  std::string family, option;
  int ranks = 0, microbatches = 0;
  words >> family >> ranks >> microbatches;
  ScheduleOptions options;
  while (words >> option) options[option.substr(0, option.find('='))] = option.substr(option.find('=') + 1);
  make_schedule(family, ranks, microbatches, options);
}

void walk_routes(const Cluster& cluster) {
  for (int from = 0; from < cluster.size(); ++from)
    for (int to = 0; to < cluster.size(); ++to) cluster.route(from, to);
}

void read(const std::string& path) {
  const Request request = request_of(path);
  std::istringstream words(request.how);
  std::string how;
  words >> how;
  if (fs::path(path).extension() == ".csv") {
    load_schedule_csv(path);
  } else if (how == "layers") {
    load_layers(path);
  } else if (how == "schedule") {
    make_schedule_of(words);
  } else {
    const Scenario scenario = load_scenario(path, request.overrides);
    if (how == "routes") walk_routes(scenario.cluster);
    if (how != "plan") return;
    const Workload workload = make_workload(scenario);
    make_plan(scenario, CostModel(scenario, workload));
  }
}

std::string with_names_of_folders(std::string text) {
  const std::map<std::string, std::string> names = {{data_directory(), "<data>"}, {PANPIPE_TESTS, "<tests>"}};
  for (const auto& [folder, name] : names)
    for (std::size_t at = 0; (at = text.find(folder, at)) != std::string::npos;) text.replace(at, folder.size(), name);
  return text;
}

std::string message_of(const std::string& path) {
  try {
    read(path);
  } catch (const InputError& error) {
    std::string text;
    for (const Diagnostic& diagnostic : error.diagnostics()) text += diagnostic.text() + "\n";
    return with_names_of_folders(text);
  }
  return "accepted\n";
}

class InputErrors : public testing::TestWithParam<std::string> {};

TEST_P(InputErrors, GivesTheWholeMessage) {
  const std::string base = kFolder + GetParam();
  const std::string path = fs::exists(base + ".csv") ? base + ".csv" : base + ".yaml";
  const std::string message = message_of(path);
  EXPECT_NE(message, "accepted\n") << "a wrong input must be refused";
  if (std::getenv("PANPIPE_UPDATE") != nullptr) std::ofstream(base + ".expected") << message;
  EXPECT_EQ(message, content(base + ".expected"));
}

INSTANTIATE_TEST_SUITE_P(All, InputErrors, testing::ValuesIn(all_names()), [](const auto& name) { return name.param; });

}  // namespace
}  // namespace panpipe
