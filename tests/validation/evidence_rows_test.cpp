// Compared rows: evidence that follows from them, rows that are evidence for others, and rows that state a scenario.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/validation/run_fixture.hpp"
#include "validation/runs/run_evidence.hpp"
#include "validation/runs/run_report.hpp"

namespace panpipe::validation {
namespace {

RunPrediction compared(const std::string& source, double predicted, double measured, int gpus = 8) {
  RunPrediction run;
  run.row = korthikanti_22b();
  run.row.source = source;
  run.row.id = source + "-" + std::to_string(measured);
  run.row.gpus = gpus;
  run.row.step_s = measured;
  run.predicted_s = run.by_model_s = predicted;
  run.traits.sensitivity[static_cast<std::size_t>(Direction::Everything)] = 1;
  run.traits.device = "A100-SXM";
  return run;
}

EvidenceTable evidence_of(const std::vector<RunPrediction>& runs) {
  return make_evidence(runs, widened_prior(judged_sources(runs), {}));
}

TEST(EvidenceRows, GroupsHaveTheErrorsOfTheirRows) {
  RunPrediction other = compared("one", 1, 1);
  other.traits.parallel = "data";
  RunPrediction unfair = compared("one", 1, 9);
  unfair.row.fair = "no";
  const EvidenceTable table = evidence_of({compared("one", 1, 0.8), compared("one", 1, 1.25), other, unfair});
  ASSERT_EQ(table.runs.size(), 2U);
  EXPECT_EQ(table.runs.front().runs, 2);  // +25 % and -20 %
  EXPECT_NEAR(table.runs.front().mean_error, 0.225, 1e-4);
  EXPECT_NEAR(table.runs.front().worst_error, 0.25, 1e-4);
  EXPECT_EQ(table.runs.back().runs, 1);
  EXPECT_EQ(table.prior.steps, 3);
  EXPECT_EQ(table.prior.sources, 1);
}

// Two plans on 8 GPUs, measured 1.0 and 1.1, predicted 1.0 and 1.0: their errors are ln 1.1 apart. A plan on 16 GPUs is no
// choice.
TEST(EvidenceRows, PairsOfPlansAreThoseOfOneModelAndMachine) {
  const EvidenceTable table = evidence_of({compared("one", 1, 1), compared("one", 1, 1.1), compared("one", 1, 2, 16)});
  ASSERT_EQ(table.plans.size(), 1U);
  EXPECT_EQ(table.plans.front().pairs, 1);
  EXPECT_NEAR(table.plans.front().apart.front(), std::log(1.1), 1e-4);
}

TEST(EvidenceRows, FamiliesAreNamedByTheColumnOrTheSource) {
  std::vector<RunPrediction> runs = {compared("dgxc_25.02", 1, 1), compared("dgxc_grok1", 1, 1), compared("zb", 1, 1)};
  runs.back().row.family = "sea";
  const std::vector<JudgedSource> sources = judged_sources(runs);
  ASSERT_EQ(sources.size(), 3U);
  EXPECT_EQ(sources[0].family, "dgxc");
  EXPECT_EQ(sources[1].family, "dgxc");
  EXPECT_EQ(sources[2].family, "sea");
}

TEST(EvidenceRows, AStepKeepsItsErrorAtFirstSight) {
  RunPrediction run = compared("one", 1, 1.1);
  run.row.first_sight_s = 0.55;
  const JudgedStep step = judged_sources({run}).front().steps.front();
  EXPECT_NEAR(step.off, std::log(1.1), 1e-12);
  EXPECT_NEAR(step.off_at_first_sight, std::log(2), 1e-12);
}

TEST(EvidenceRows, ShareInsideIsAFigureWithATolerance) {
  const auto judged = [](double predicted) {
    RunPrediction run = compared("one", predicted, 1);
    run.predicted_p10_s = 0.9 * predicted;
    run.predicted_p90_s = 1.1 * predicted;
    return run;
  };
  // 0.945 to 1.155 holds 1, 1.08 to 1.32 does not.
  const RunReport report =
      make_run_report({judged(1.05), judged(1.2), compared("one", 1, 1)}, {parse_run_tolerance("inside=80%")});
  EXPECT_EQ(report.summary.errors.judged, 2);
  EXPECT_EQ(report.summary.errors.inside, 0.5);
  EXPECT_FALSE(report.ok());
  const auto rows = nlohmann::json::parse(to_json(report))["rows"];
  EXPECT_NEAR(rows[1]["predicted_p10_s"].get<double>(), 1.08, 1e-12);
  EXPECT_NEAR(rows[1]["predicted_p90_s"].get<double>(), 1.32, 1e-12);
  EXPECT_EQ(rows[1]["inside"], false);
  EXPECT_TRUE(rows[2]["predicted_p10_s"].is_null());
}

// Three rows of one source, each 3 % longer than predicted, and one of another source. With one given the other two are close,
// the interval is narrower, the other source is as before, and the given row counts nowhere.
TEST(EvidenceRows, GivenRowsAreEvidenceForTheOthersOfTheirSource) {
  const auto runs = [] {
    return std::vector<RunPrediction>{compared("one", 1, 1.03), compared("one", 2, 2.06), compared("one", 3, 3.09),
                                      compared("two", 1, 1)};
  };
  std::vector<RunPrediction> before = runs(), after = runs();
  const UncertaintyPrior& prior = shipped_evidence().prior;
  set_intervals(before, prior);
  set_intervals(after, prior, {before[0].row.id});
  EXPECT_TRUE(after[0].given);
  EXPECT_EQ(after[0].error(), std::nullopt);
  EXPECT_EQ(after[0].inside(), std::nullopt);
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_LT(std::abs(*after[i].error()), std::abs(*before[i].error()));
    EXPECT_EQ(after[i].by_model_s, before[i].predicted_s);
    EXPECT_LT(after[i].predicted_p90_s / after[i].predicted_p10_s, before[i].predicted_p90_s / before[i].predicted_p10_s);
  }
  EXPECT_EQ(after[3].predicted_s, before[3].predicted_s);
  EXPECT_EQ(after[3].predicted_p90_s, before[3].predicted_p90_s);
  const RunReport report = make_run_report(after, {});
  EXPECT_EQ(report.summary.errors.rows, 3);
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["rows"][0]["given"], true);
}

TEST(EvidenceRows, AGivenRowThatIsNoneIsAFault) {
  std::vector<RunPrediction> runs = {compared("one", 1, 1)};
  const UncertaintyPrior& prior = shipped_evidence().prior;
  EXPECT_EQ(test::diagnostic_of([&] { set_intervals(runs, prior, {"nobody"}); }).message, "no row has the id 'nobody'");
  runs.front().skipped = "not stated: layers";
  EXPECT_EQ(test::diagnostic_of([&] { set_intervals(runs, prior, {runs.front().row.id}); }).message,
            "row '" + runs.front().row.id + "' is no evidence: not stated: layers");
}

TEST(EvidenceRows, ARowMayStateItsScenario) {
  const std::string cell =
      R"("{""panpipe"": 1, ""cluster"": ""clusters/dgx-a100-80g.yaml"", ""workload"": {""model"": ""gpt2""}, )"
      R"(""batch"": {""micro"": 4, ""microbatches"": 2}, ""parallel"": {""tensor"": 2, ""data"": 4}}")";
  const std::string file = file_with("id,source,step_s,scenario\na,one,1," + cell + "\nb,one,1,s.yaml\nc,one,1,none.yaml\n");
  test::scratch().write("s.yaml",
                        "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\n"
                        "batch: {micro: 4, microbatches: 2}\nparallel: {tensor: 2, data: 4}\n");
  const std::vector<RunPrediction> runs = predict(read_runs(file), {});
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].skipped, "");
  EXPECT_GT(runs[0].predicted_s, 0);
  EXPECT_EQ(runs[0].predicted_s, runs[1].predicted_s);
  EXPECT_EQ(runs[0].row.gpu, "A100-SXM");
  EXPECT_EQ(runs[0].row.gpus, 8);
  EXPECT_EQ(parallelism_of(runs[0].row), "tensor + data");
  EXPECT_THAT(runs[2].skipped, ::testing::HasSubstr("no such file"));
}

TEST(EvidenceRows, LeftOutPredictionsStandInForOurs) {
  const std::string path = file_with("id,source,left_out_s\n22B,korth22,1.75\n");
  PredictionOptions options;
  options.left_out = read_left_out({path});
  EXPECT_EQ(predict({korthikanti_22b()}, options).front().predicted_s, 1.75);
  const auto message = [&](const std::string& text) -> std::string {
    test::write_file(path, text);
    return test::fault_of([&] { read_left_out({path}); });
  };
  EXPECT_EQ(message("id,source\n22B,korth22\n"),
            "error: " + path + ": no column 'left_out_s'; it is no table of rows left out, as a fit writes them");
  EXPECT_THAT(message("id,left_out_s\n22B,slow\n"),
              ::testing::HasSubstr(":2:5: error: 'slow' is not a number of seconds above 0"));
}

}  // namespace
}  // namespace panpipe::validation
