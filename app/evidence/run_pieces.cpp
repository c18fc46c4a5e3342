// Rows of measured runs as evidence, each predicted as `panpipe validate` predicts it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "app/evidence/piece_readers.hpp"
#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "validation/runs/run_prediction.hpp"

namespace panpipe::app {
namespace {

constexpr std::size_t kMostRows = 50;  // the work grows with the fourth power: 80 take 6 s
constexpr std::size_t kMostNamed = 5;

std::vector<validation::RunRow> rows_of(const EvidenceRequest& request) {
  std::vector<validation::RunRow> rows = validation::read_runs(request.file);
  if (!request.ids.empty()) {
    std::vector<validation::RunRow> named;
    for (const std::string& id : request.ids) {
      const auto found = std::find_if(rows.begin(), rows.end(), [&](const validation::RunRow& row) { return row.id == id; });
      if (found == rows.end())
        throw InputError(fmt::format("{}: no row has the id '{}'", request.file, id), "", code::kUnknownName);
      named.push_back(*found);
    }
    rows = std::move(named);
  }
  if (rows.empty()) throw InputError(request.file + ": this table has no rows");
  if (rows.size() > kMostRows)
    throw InputError(fmt::format("{}: {} rows, and evidence is at most {}", request.file, rows.size(), kMostRows),
                     fmt::format("name those of this machine, as in {{rows: {}, ids: [{}]}}", request.file, rows.front().id));
  return rows;
}

std::string named(const std::vector<std::string>& ids) {
  std::vector<std::string> few(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), kMostNamed)));
  return fmt::format("{}{}", fmt::join(few, ", "),
                     ids.size() > few.size() ? fmt::format(" and {} more", ids.size() - few.size()) : "");
}

struct Rows {
  std::vector<ComparedStep> steps;
  std::vector<std::string> ids;
};

// Leaves out the row that lies farthest from what the others expect, until none contradicts them. Returns their ids.
std::vector<std::string> drop_contradicting(Rows& rows) {
  std::vector<std::string> dropped;
  while (rows.steps.size() > 2) {
    const std::vector<double> away = contradictions(rows.steps, shipped_evidence().prior);
    const auto farthest = std::max_element(away.begin(), away.end());
    if (*farthest <= 1) break;
    const auto place = farthest - away.begin();
    dropped.push_back(rows.ids[static_cast<std::size_t>(place)]);
    rows.steps.erase(rows.steps.begin() + place);
    rows.ids.erase(rows.ids.begin() + place);
  }
  return dropped;
}

GivenPiece piece_of_rows(Rows rows) {
  const std::vector<std::string> dropped = drop_contradicting(rows);
  GivenPiece piece;
  piece.machine = rows.steps.front().machine;
  piece.trainer = rows.steps.front().framework;
  piece.wiring = rows.steps.front().wiring;
  double sum = 0;
  for (const ComparedStep& step : rows.steps) sum += step.off;
  const auto count = static_cast<double>(rows.steps.size());
  piece.what =
      fmt::format("{} run{} with {} on {} ({}), {}{}", rows.steps.size(), rows.steps.size() == 1 ? "" : "s", piece.trainer,
                  piece.machine, named(rows.ids), longer_text(sum / count), rows.steps.size() > 1 ? " in the mean" : "");
  if (!dropped.empty()) piece.what += fmt::format("; without {}, which the others contradict", named(dropped));
  piece.observations = std::move(rows.steps);
  return piece;
}

}  // namespace

std::vector<GivenPiece> run_pieces(const EvidenceRequest& request, StatedJob&) {
  std::map<std::tuple<std::string, std::string, std::string>, Rows> groups;  // by machine, trainer, wiring
  std::vector<std::string> without;
  std::string why;
  for (const validation::RunPrediction& run : validation::predict(rows_of(request), {})) {
    if (!run.predicted() || !run.row.step_s) {
      without.push_back(run.row.id);
      if (why.empty()) why = run.predicted() ? "no measured step" : run.skipped;
      continue;
    }
    const ComparedStep step = run.compared();
    Rows& rows = groups[{step.machine, trainer_family(step.framework), step.wiring}];
    rows.steps.push_back(step);
    rows.ids.push_back(run.row.id);
  }
  std::vector<GivenPiece> pieces;
  for (auto& [scope, rows] : groups) pieces.push_back(piece_of_rows(std::move(rows)));
  if (!without.empty()) {
    GivenPiece& rest = pieces.emplace_back();
    rest.what = "rows " + named(without);
    rest.left_out = "they say nothing: " + why;
  }
  return pieces;
}

}  // namespace panpipe::app
