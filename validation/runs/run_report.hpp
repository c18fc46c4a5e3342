// The result of `panpipe validate` as a table, a JSON document (panpipe-validation/1), and a page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/text/json_writer.hpp"
#include "validation/judge/judge.hpp"
#include "validation/runs/run_statistics.hpp"

namespace panpipe::validation {

// "mean=5%", "zb.mean=2%": an upper limit of an error (of one source). `pairs_ordered` and `choice_pairs_ordered` are lower
// limits of shares.
struct RunTolerance {
  std::string text, source, figure;
  double limit = 0;
};
// Throws InputError for an unknown figure.
RunTolerance parse_run_tolerance(const std::string& text);

struct ToleranceCheck {
  RunTolerance tolerance;
  double value = 0;
  bool ok = true;
};

struct RunReport {
  std::vector<RunPrediction> runs;
  Summary summary;
  Groups groups;
  std::vector<ToleranceCheck> checks;
  std::optional<Judgement> judgement;  // of sources left out, where it was asked for
  bool ok() const;
};

// Throws InputError for a tolerance on a source without rows.
RunReport make_run_report(std::vector<RunPrediction> runs, const std::vector<RunTolerance>& tolerances);

// The rows with an error, worst first.
std::vector<const RunPrediction*> worst_first(const RunReport& report);

// A figure in the tables of groups, for people.
struct GroupFigure {
  const char *head, *hint;
  int digits;                            // decimals, in %; 0: a number of rows
  double (*of)(const Summary& summary);  // NaN if a group has no such rows
  bool has_sign = false;

  double shown(const Summary& summary) const { return digits > 0 ? 100 * of(summary) : of(summary); }
};
const std::vector<GroupFigure>& group_figures();

// Worst rows first; at most `most` rows (0: all).
std::string to_table(const RunReport& report, std::size_t most);
std::string to_json(const RunReport& report);
// One self-contained HTML page with `command` below its title.
std::string to_page(const RunReport& report, const std::string& command);

}  // namespace panpipe::validation
