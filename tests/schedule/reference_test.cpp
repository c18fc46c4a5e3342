// Published orders and their times. The repository carries the smaller ones (tests/reference); PANPIPE_REFERENCE may name a
// folder with longer files of the same form.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using Json = nlohmann::json;
using test::rows_of;

Json reference(const std::string& file) {
  const char* folder = std::getenv("PANPIPE_REFERENCE");
  std::ifstream stream(fmt::format("{}/{}", folder == nullptr ? "reference" : folder, file));
  return Json::parse(stream);
}

std::string joined(const Json& cells, const char* between) {
  return fmt::format("{}", fmt::join(cells.get<std::vector<std::string>>(), between));
}

// The order of an entry through our own text form, with the header lines its shape needs.
Schedule schedule_of(const Json& entry, const char* key = "ranks") {
  std::string text;
  if (entry["chains"].size() > 1) {
    for (const auto& chain : entry["chains"]) text += fmt::format("#chain {}\n", fmt::join(chain.get<std::vector<int>>(), ","));
  }
  for (const auto& row : entry[key]) text += joined(row, ",") + "\r\n";
  return read_schedule_csv(text, entry["id"].get<std::string>());
}

struct Generator {
  std::string family;
  ScheduleOptions options;
};

std::optional<Generator> generator_of(const Json& entry) {
  const std::string family = entry["family"];
  const int chunks = entry["num_stages"].get<int>() / entry["pp"].get<int>();
  const auto input = [&](const char* key) { return std::to_string(entry["generator_input"][key].get<int>()); };
  ScheduleOptions stages = {{"stages_per_rank", std::to_string(chunks)}};
  if (family == "GPipe") return Generator{"gpipe", {}};
  if (family == "1F1B") return Generator{"1f1b", {}};
  if (family == "LoopedBFS") return Generator{"looped-bfs", stages};
  if (family == "ZB-H1") return Generator{"zb-h1", {}};
  if (family == "ZB-H2") return Generator{"zb-h2", {}};
  if (family == "ZBVZeroBubble" || family == "ZB-V(handcrafted)") return Generator{"zb-v", {}};
  if (family == "InterleavedZeroBubble") return Generator{"interleaved-zero-bubble", stages};
  if (family == "DualPipe") return Generator{"dualpipe", {}};
  if (family == "DualPipeV") return Generator{"dualpipe-v", {}};
  if (family == "1F1B-V") return Generator{"1f1b-v", {}};
  if (family == "Seq1F1B") return Generator{"seq-1f1b", {{"sequence_splits", std::to_string(entry["seq_splits"].get<int>())}}};
  if (family == "STP") return Generator{"stp", {}};
  if (family == "PipeOffload-GIS(no offload)") {
    stages["group"] = input("interleave_group_size");
    return Generator{"group-interleaved", stages};
  }
  if (family.starts_with("Interleaved1F1B")) {
    if (entry.contains("generator_input")) stages["group"] = input("microbatch_group_size_per_vp_stage");
    if (family.find("combined") != std::string::npos) stages["combined"] = "true";
    return Generator{"interleaved-1f1b", stages};
  }
  if (family == "PfeifeLooped") {
    stages["loop_batch"] = input("loop_batch");
    stages["prefetch"] = input("prefetch_fwd");
    return Generator{"pfeife", stages};
  }
  return std::nullopt;
}

TEST(Reference, GeneratorsGiveThePublishedOrders) {
  const Json file = reference("schedules.json");
  int compared = 0;
  for (const Json& entry : file["schedules"]) {
    const auto generator = generator_of(entry);
    if (!generator || !entry["valid"].get<bool>()) continue;
    SCOPED_TRACE(entry["id"].get<std::string>());
    const Schedule schedule = make_schedule(generator->family, entry["pp"], entry["microbatches"], generator->options);
    std::vector<std::string> expected;
    for (const auto& row : entry["ranks"]) expected.push_back(joined(row, " "));
    EXPECT_EQ(rows_of(schedule), expected);
    EXPECT_EQ(schedule.stage_to_rank, entry["stage_to_rank"].get<std::vector<int>>());
    EXPECT_EQ(Json(schedule.chains), entry["chains"]);
    EXPECT_TRUE(check_schedule(schedule).empty());
    ++compared;
  }
  EXPECT_GE(compared, 59);
}

TEST(Reference, EveryOrderEvaluatesAsPublished) {
  const Json file = reference("schedules.json");
  for (const Json& entry : file["schedules"]) {
    SCOPED_TRACE(entry["id"].get<std::string>());
    const Schedule schedule = schedule_of(entry);
    EXPECT_EQ(schedule.microbatches, entry["microbatches"].get<int>());
    EXPECT_EQ(schedule.stage_to_rank, entry["stage_to_rank"].get<std::vector<int>>());
    const auto problems = check_schedule(schedule);
    if (!entry["valid"].get<bool>()) {  // PyTorch's dumps of Schedule1F1B number the last rank's forwards from 1
      ASSERT_FALSE(problems.empty());
      EXPECT_THAT(problems[0].message, testing::HasSubstr("F0, its forward"));
      continue;
    }
    ASSERT_TRUE(problems.empty()) << test::message_of(problems);
    for (const char* set : {"unit", "skew"}) {
      const Json& expected = entry["refsim"][set];
      const Json& cost = expected["cost"];
      PassCosts costs{cost["F"], cost["I"], cost["W"], std::nullopt, cost["comm"]};
      const ScheduleEvaluation result = evaluate(schedule, costs);
      EXPECT_EQ(result.makespan, expected["makespan"].get<double>()) << set;
      EXPECT_EQ(result.span, expected["span"].get<double>()) << set;
      EXPECT_EQ(result.busy, expected["busy"].get<std::vector<double>>()) << set;
      EXPECT_EQ(result.peak_activations, expected["peak_act"].get<std::vector<int>>()) << set;
    }
  }
}

TEST(Reference, PyTorchFilesComeBackIdentical) {
  const Json file = reference("schedules.json");
  int compared = 0;
  for (const Json& entry : file["schedules"])
    for (const char* key : {"torch_csv_compute_only", "torch_csv_compute_comms"}) {
      if (!entry.contains(key)) continue;
      SCOPED_TRACE(fmt::format("{} {}", entry["id"].get<std::string>(), key));
      const std::string text = joined(entry[key], "\r\n") + "\r\n";
      const Schedule schedule = read_schedule_csv(text, "order.csv");
      EXPECT_EQ(to_csv(schedule, false), text);
      EXPECT_EQ(to_csv(schedule, true), text);
      EXPECT_TRUE(schedule.notes.empty());
      const auto problems = check_schedule(schedule);
      EXPECT_EQ(problems.empty(), entry["valid"].get<bool>()) << test::message_of(problems);
      ++compared;
    }
  EXPECT_GE(compared, 14);
}

TEST(Reference, PyTorchSendsAndReceivesAreLegal) {
  const Json file = reference("schedules.json");
  for (const Json& entry : file["schedules"])
    for (const char* key : {"ranks_send_recv", "ranks_send_recv_deferred"}) {
      if (!entry.contains(key)) continue;
      SCOPED_TRACE(fmt::format("{} {}", entry["id"].get<std::string>(), key));
      EXPECT_EQ(test::message_of(check_schedule(schedule_of(entry, key))), "legal");
    }
}

// "F2.0" -> "2F0"
std::string cell_of_pfeife(const std::string& op) {
  const std::size_t dot = op.find('.');
  return fmt::format("{}{}{}", op.substr(1, dot - 1), op[0], op.substr(dot + 1));
}

TEST(Reference, PfeifeOrdersAreThePublishedOnes) {
  const Json file = reference("pfeife_cases.json");
  int compared = 0;
  for (const Json& entry : file["cases"]) {
    const Json& input = entry["input"];
    if (!entry["expected"].is_object() || !entry["expected"].contains("order") || !input.contains("loop_batch")) continue;
    SCOPED_TRACE(entry["id"].get<std::string>());
    const auto text = [&](const char* key) { return std::to_string(input[key].get<int>()); };
    const Schedule schedule =
        make_schedule("pfeife", input["devices"], input["batches"],
                      {{"stages_per_rank", text("loops")}, {"loop_batch", text("loop_batch")}, {"prefetch", text("prefetch")}});
    std::vector<std::string> expected;
    for (const auto& row : entry["expected"]["order"]) {
      std::vector<std::string> cells;
      for (const auto& op : row) cells.push_back(cell_of_pfeife(op));
      expected.push_back(fmt::format("{}", fmt::join(cells, " ")));
    }
    EXPECT_EQ(rows_of(schedule), expected);
    ++compared;
    const auto problems = check_schedule(schedule);
    if (entry["kind"] == "failure") {
      EXPECT_FALSE(problems.empty());
      continue;
    }
    ASSERT_TRUE(problems.empty()) << test::message_of(problems);
    if (entry["expected"].contains("uniform_makespan_f1_b2_c0")) {
      EXPECT_EQ(evaluate(schedule, {}).makespan, entry["expected"]["uniform_makespan_f1_b2_c0"].get<double>());
    }
  }
  EXPECT_GE(compared, 10);
}

}  // namespace
}  // namespace panpipe
