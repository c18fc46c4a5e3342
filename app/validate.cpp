#include "app/validate.hpp"

#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "validation/runs/csv_table.hpp"

namespace panpipe::app {
namespace {

void leave_out(std::vector<validation::RunRow>& rows, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::erase_if(rows, [&](const validation::RunRow& row) { return row.source == name || row.id == name; }) == 0)
      throw option_fault("without", "no row has the id or source '" + name + "'");
}

void refuse_with_products(bool anything) {
  if (anything)
    throw InputError("a table of matrix products stands alone: with it go calibrations, and no other option of measured runs");
}

}  // namespace

RunsAnswer answer_runs(const RunsRequest& request, const std::function<void(const std::vector<validation::RunRow>&)>& ready) {
  std::vector<validation::RunTolerance> tolerances;
  for (const std::string& text : request.tolerances) tolerances.push_back(validation::parse_run_tolerance(text));
  std::vector<validation::RunRow> rows;
  std::vector<validation::ProductRow> products;
  for (const std::string& named : request.files) {
    const std::string file = std::filesystem::is_directory(named) ? named + "/runs.csv" : named;
    const validation::CsvTable table = validation::load_csv(file);
    if (holds_products(table))
      for (validation::ProductRow& row : read_products(table)) products.push_back(std::move(row));
    else
      for (validation::RunRow& row : read_runs(table, file)) rows.push_back(std::move(row));
  }
  RunsAnswer answer;
  if (!products.empty()) {
    refuse_with_products(!rows.empty() || !request.tolerances.empty() || !request.alone || !request.left_out.empty() ||
                         !request.without.empty() || request.learn || request.judge || !request.given.empty());
    answer.products = predict_products(products, request.prediction.calibrations);
    return answer;
  }
  leave_out(rows, request.without);
  validation::PredictionOptions options = request.prediction;
  options.left_out = validation::read_left_out(request.left_out);
  if (ready) ready(rows);
  std::vector<validation::RunPrediction> runs = predict(rows, options);
  const std::vector<validation::JudgedSource> sources = validation::judged_sources(runs);
  std::vector<validation::LeftOutSource> left_out;
  if (request.learn || request.judge) left_out = leave_out_families(sources, options.threads);
  if (request.learn) answer.evidence = validation::make_evidence(runs, widened_prior(sources, left_out));
  set_intervals(runs, (answer.evidence ? *answer.evidence : shipped_evidence()).prior, request.given);
  std::optional<validation::Judgement> judgement;
  if (request.judge) judgement = validation::judge_sources(left_out);
  answer.report = make_run_report(std::move(runs), tolerances);
  answer.report->judgement = std::move(judgement);
  return answer;
}

}  // namespace panpipe::app
