// Every wrong input, and its message: of NAME.yaml or NAME.csv the whole message, which stands in NAME.expected; of the
// inputs in cases.txt the code, the key, the place and some words of the message and of its help.
//
// An input is read as a scenario, a file .csv as a schedule. Comment lines at its top ask for more:
//   # --set KEY=VALUE      an override
//   # read as: layers      a table of measured layers
//   # read as: plan        a scenario, then its workload and plan
//   # read as: routes      a scenario, then the route of each pair of devices
//   # read as: NAME ...    by that reader of the table below: `csv` and `order` are schedules, `import TRAINER [--gpus N]
//                          [--model FILE] [--sequence N]` a job, `schedule NAME RANKS MICROBATCHES [KEY=VALUE]...` no text at all
// An .expected without its input is the message for a file that does not exist.
// PANPIPE_UPDATE=1 rewrites the .expected files and the lines of cases.txt; read every one before committing it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/input/reader.hpp"
#include "costmodel/cluster/collective_tables.hpp"
#include "costmodel/cluster/nccl_tests.hpp"
#include "costmodel/cluster/nvidia_smi_topology.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/profile/framework.hpp"
#include "costmodel/profile/profile.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "jobs/trainer_jobs.hpp"
#include "study/arena/arena.hpp"
#include "study/sweep/grid.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/texts.hpp"

namespace panpipe {
namespace {

namespace fs = std::filesystem;
const std::string kFolder = "input_errors/", kCases = kFolder + "cases.txt";

const std::string kHelp = " | help: ", kReadAs = "# read as: ";

using test::read_file;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct Case {
  std::string place, words, help;  // "code | key | line:column", a part of the message, and one of the help
  std::vector<std::string> input;
};

// By name, with `head` among them.
std::map<std::string, Case> read_cases() {
  std::map<std::string, Case> all;
  Case* last = nullptr;
  for (const std::string& line : lines_of(read_file(kCases))) {
    if (line.starts_with("  ")) {
      last->input.push_back(line.substr(2));
    } else if (!line.starts_with("#")) {
      const std::string name = line.substr(0, line.find(" | "));
      last = &all[name];
      if (name == "head") continue;
      const std::size_t words = line.find(" | ", line.find(" | ", line.find(" | ", name.size() + 3) + 3) + 3);
      last->place = line.substr(name.size() + 3, words - name.size() - 3);
      const std::size_t help = std::min(line.find(kHelp), line.size());
      last->words = line.substr(words + 3, help - words - 3);
      if (help < line.size()) last->help = line.substr(help + kHelp.size());
    }
  }
  return all;
}

struct Request {
  std::string how = "scenario";
  std::vector<std::string> overrides;
};

Request request_of(const std::string& text) {
  Request request;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with("# ")) break;
    if (line.starts_with("# --set ")) request.overrides.push_back(line.substr(8));
    if (line.starts_with(kReadAs)) request.how = line.substr(kReadAs.size());
  }
  return request;
}

void make_schedule_of(std::istringstream& words, const std::string&) {
  std::string family, option;
  int ranks = 0, microbatches = 0;
  words >> family >> ranks >> microbatches;
  ScheduleOptions options;
  while (words >> option) options[option.substr(0, option.find('='))] = option.substr(option.find('=') + 1);
  make_schedule(family, ranks, microbatches, options);
}

// The first problem of an order is its fault.
void check_order(std::istringstream&, const std::string& text) {
  const auto problems = check_schedule(read_schedule_csv(text, "order.csv"));
  if (!problems.empty()) throw InputError(test::message_of(problems));
}

void import_job(std::istringstream& words, const std::string& text) {
  std::string trainer, option;
  words >> trainer;
  jobs::JobOptions options;
  while (words >> option) {
    if (option == "--gpus") words >> options.gpus.emplace();
    if (option == "--sequence") words >> options.sequence.emplace();
    if (option == "--model") words >> options.model;
  }
  jobs::importer_named(trainer).read(text, "job", options);
}

void walk_routes(const Cluster& cluster) {
  for (int from = 0; from < cluster.size(); ++from)
    for (int to = 0; to < cluster.size(); ++to) cluster.route(from, to);
}

std::string word_of(std::istringstream& words) {
  std::string word;
  words >> word;
  return word;
}

// What is not laid over the head, by its name behind "# read as: ", with the further words and the lines below.
using Reader = void (*)(std::istringstream& words, const std::string& text);
const std::map<std::string, Reader> kReaders = {
    {"axis", [](auto& words, auto&) { study::parse_axis(word_of(words)); }},
    {"collectives", [](auto&, auto& text) { parse_collective_tables(text, "in.yaml"); }},
    {"cost-ratio", [](auto& words, auto&) { study::read_cost_ratio(word_of(words)); }},
    {"csv", [](auto&, auto& text) { load_schedule_csv(test::scratch().write("order.csv", text)); }},
    {"entrant", [](auto& words, auto&) { study::read_entrant(word_of(words)); }},
    {"framework", [](auto&, auto& text) { load_framework(test::scratch().write("framework.yaml", text), "."); }},
    {"import", import_job},
    {"nccl-tests", [](auto& words, auto& text) { parse_nccl_tests(text, word_of(words)); }},
    {"order", check_order},
    {"profile", [](auto&, auto& text) { parse_profile(text, "in.yaml"); }},
    {"schedule", make_schedule_of},
    {"topology", [](auto&, auto& text) { parse_topology_matrix(text, "in.txt"); }},
};

// Reads the file at `path`, or the text in its place.
void read(const std::string& path, const std::optional<std::string>& text) {
  const Request request = request_of(text ? *text : fs::is_regular_file(path) ? read_file(path) : "");
  std::istringstream words(request.how);
  const std::string how = word_of(words);
  if (const auto reader = kReaders.find(how); reader != kReaders.end()) {
    reader->second(words, text ? text->substr(text->find('\n') + 1) : "");
  } else if (fs::path(path).extension() == ".csv") {
    load_schedule_csv(path);
  } else if (how == "layers") {
    load_layers(text ? test::scratch().write("layers.yaml", *text) : path);
  } else {
    const Scenario scenario =
        text ? parse_scenario(*text, path, kFolder, request.overrides) : load_scenario(path, request.overrides);
    if (how == "routes") walk_routes(scenario.cluster);
    if (how != "plan") return;
    const Workload workload = make_workload(scenario);
    make_plan(scenario, CostModel(scenario, workload));
  }
}

// Lines that do not state `panpipe` are laid over those of the head.
std::vector<std::string> laid_over(const std::vector<std::string>& head, const std::vector<std::string>& input) {
  const auto key = [](const std::string& line) { return line.substr(0, line.find(':')); };
  std::vector<std::string> comments, body = head;
  for (const std::string& line : input) {
    if (line.find("panpipe:") != std::string::npos) return input;
    if (line.starts_with(kReadAs) && kReaders.contains(test::parts_of(line.substr(kReadAs.size())).front())) return input;
    const auto stated =
        std::find_if(head.begin(), head.end(), [&](const std::string& of_head) { return key(of_head) == key(line); });
    if (line.starts_with("# "))
      comments.push_back(line);
    else if (stated != head.end())
      body[stated - head.begin()] = line;
    else
      body.push_back(line);
  }
  comments.insert(comments.end(), body.begin(), body.end());
  return comments;
}

std::vector<Diagnostic> faults_of(const std::string& path, const std::optional<std::string>& text = std::nullopt) {
  const std::vector<Diagnostic> faults = test::diagnostics_of([&] { read(path, text); });
  EXPECT_FALSE(faults.empty()) << "a wrong input must be refused";
  return faults;
}

std::string with_names_of_folders(std::string text) {
  const std::map<std::string, std::string> names = {{data_directory(), "<data>"}, {PANPIPE_TESTS, "<tests>"}};
  for (const auto& [folder, name] : names) text = test::replaced(text, folder, name);
  return text;
}

// Messages name files as they were given: all paths are relative to tests/.
std::vector<std::string> names(bool whole) {
  fs::current_path(PANPIPE_TESTS);
  std::set<std::string> all;
  const auto cases = read_cases();
  for (const auto& [name, row] : cases)
    if (!whole && name != "head") all.insert(name);
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const std::string name = entry.path().stem(), suffix = entry.path().extension();
    if (whole && cases.count(name) == 0 && (suffix == ".yaml" || suffix == ".csv" || suffix == ".expected")) all.insert(name);
  }
  return {all.begin(), all.end()};
}

bool update() { return std::getenv("PANPIPE_UPDATE") != nullptr; }

class InputErrors : public testing::TestWithParam<std::string> {};

TEST_P(InputErrors, GivesTheWholeMessage) {
  const std::string base = kFolder + GetParam();
  std::string message;
  for (const Diagnostic& fault : faults_of(base + (fs::exists(base + ".csv") ? ".csv" : ".yaml")))
    message += with_names_of_folders(fault.text()) + "\n";
  if (update()) test::write_file(base + ".expected", message);
  EXPECT_EQ(message, read_file(base + ".expected"));
}

INSTANTIATE_TEST_SUITE_P(All, InputErrors, testing::ValuesIn(names(true)), [](const auto& name) { return name.param; });

class InputErrorCases : public testing::TestWithParam<std::string> {};

TEST_P(InputErrorCases, ReportsWhatIsWrongAndWhere) {
  const auto cases = read_cases();
  const Case& row = cases.at(GetParam());
  const std::string path = kFolder + GetParam() + ".yaml";
  const auto input = row.input.empty() ? lines_of("") : laid_over(cases.at("head").input, row.input);
  const std::vector<Diagnostic> faults =
      input.empty() ? faults_of(path) : faults_of(path, fmt::format("{}\n", fmt::join(input, "\n")));
  ASSERT_EQ(faults.size(), 1U) << "of more than one fault the whole message is tested";
  const Diagnostic& fault = faults.front();
  const std::string line = fault.line > 0          ? fmt::format("{}:{}", fault.line, fault.column)
                           : fault.file == "--set" ? fault.file
                                                   : "-";
  const std::string place = fmt::format("{} | {} | {}", fault.code, fault.key.empty() ? "-" : fault.key, line);
  if (update()) {
    std::string text;
    for (const std::string& old : lines_of(read_file(kCases)))
      text += (old.starts_with(GetParam() + " | ")
                   ? fmt::format("{} | {} | {}{}", GetParam(), place,
                                 fault.message.find(row.words) != std::string::npos ? row.words : fault.message,
                                 row.help.empty() ? "" : kHelp + row.help)
                   : old) +
              "\n";
    test::write_file(kCases, text);
    return;
  }
  EXPECT_EQ(place, row.place);
  EXPECT_THAT(fault.message, testing::HasSubstr(row.words));
  EXPECT_THAT(fault.help, testing::HasSubstr(row.help));
}

INSTANTIATE_TEST_SUITE_P(All, InputErrorCases, testing::ValuesIn(names(false)), [](const auto& name) { return name.param; });

}  // namespace
}  // namespace panpipe
