#include "validation/runs/run_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "base/input/reader.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "validation/runs/csv_table.hpp"

namespace panpipe {
namespace {

using Problem = std::string;  // empty: none
struct Column {
  std::string name;
  std::function<Problem(RunRow&, const std::string&)> set;  // of a cell that is not empty
};

Column text(const char* name, std::string RunRow::*member) {
  return {name, [member](RunRow& row, const std::string& cell) {
            row.*member = cell;
            return Problem();
          }};
}

Column count(const char* name, std::optional<int> RunRow::*member, int least) {
  return {name, [member, least](RunRow& row, const std::string& cell) {
            const Parsed<long long> parsed = parse_integer(cell);
            if (!parsed.value) return parsed.problem;
            if (*parsed.value < least || *parsed.value > std::numeric_limits<int>::max())
              return fmt::format("expected a whole number from {}, not {}", least, cell);
            row.*member = static_cast<int>(*parsed.value);
            return Problem();
          }};
}

Column number(const char* name, std::optional<double> RunRow::*member) {
  return {name, [member](RunRow& row, const std::string& cell) {
            const Parsed<double> parsed = parse_number(cell);
            if (!parsed.value) return parsed.problem;
            if (*parsed.value <= 0) return fmt::format("must be positive, not {}", cell);
            row.*member = *parsed.value;
            return Problem();
          }};
}

// A number of seconds.
Column time(const char* name, std::optional<double> RunRow::*member) {
  return {name, [as_number = number(name, member).set](RunRow& row, const std::string& cell) {
            const Problem problem = as_number(row, cell);
            return problem.empty() ? parse_duration(cell + " s").problem : problem;
          }};
}

Column truth(const char* name, std::optional<bool> RunRow::*member) {
  return {name, [member](RunRow& row, const std::string& cell) {
            if (cell != "true" && cell != "false") return fmt::format("expected true or false, not '{}'", cell);
            row.*member = cell == "true";
            return Problem();
          }};
}

const std::vector<Column>& columns() {
  static const std::vector<Column> all = {text("id", &RunRow::id),
                                          text("source", &RunRow::source),
                                          text("where", &RunRow::where),
                                          text("confidence", &RunRow::confidence),
                                          text("framework", &RunRow::framework),
                                          text("gpu", &RunRow::gpu),
                                          count("gpus", &RunRow::gpus, 1),
                                          count("gpus_per_node", &RunRow::gpus_per_node, 1),
                                          text("fabric", &RunRow::fabric),
                                          count("layers", &RunRow::layers, 1),
                                          count("hidden", &RunRow::hidden, 1),
                                          count("heads", &RunRow::heads, 1),
                                          count("kv_heads", &RunRow::kv_heads, 1),
                                          count("ffn", &RunRow::ffn, 1),
                                          count("seq", &RunRow::seq, 1),
                                          count("vocab", &RunRow::vocab, 1),
                                          count("global_batch", &RunRow::global_batch, 1),
                                          count("micro_batch", &RunRow::micro_batch, 1),
                                          count("tp", &RunRow::tp, 1),
                                          count("pp", &RunRow::pp, 1),
                                          count("dp", &RunRow::dp, 1),
                                          text("schedule", &RunRow::schedule),
                                          count("virtual_stages", &RunRow::virtual_stages, 1),
                                          text("recompute", &RunRow::recompute),
                                          truth("seq_parallel", &RunRow::seq_parallel),
                                          count("zero", &RunRow::zero, 0),
                                          text("precision", &RunRow::precision),
                                          time("step_s", &RunRow::step_s),
                                          number("peak_gib", &RunRow::peak_gib),
                                          text("note", &RunRow::note)};
  return all;
}

// Which of our columns stands at each place of the heading; nullptr for those of others.
std::vector<const Column*> match_heading(const CsvTable& table, ReadLog& log) {
  std::vector<const Column*> found;
  std::set<std::string> seen;
  for (const CsvCell& cell : table.heading) {
    const auto same = std::find_if(columns().begin(), columns().end(), [&](const Column& c) { return c.name == cell.text; });
    found.push_back(same == columns().end() ? nullptr : &*same);
    if (!seen.insert(cell.text).second)
      log.add(diagnostic_at(table, cell, fmt::format("the column '{}' occurs twice", cell.text)));
    if (found.back() != nullptr) continue;
    if (const auto near = nearest_name(cell.text, run_columns()); near && !cell.text.empty())
      log.add(diagnostic_at(table, cell, fmt::format("there is no column '{}'", cell.text), did_you_mean(*near)));
  }
  for (const char* needed : {"id", "gpu", "step_s"})
    if (!seen.count(needed))
      log.add(diagnostic_at(table, table.heading.front(), fmt::format("the heading has no column '{}'", needed),
                            "the columns are described in docs/validate.md"));
  return found;
}

}  // namespace

const std::vector<std::string>& run_columns() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Column& column : columns()) all.push_back(column.name);
    return all;
  }();
  return names;
}

std::vector<RunRow> read_runs(const std::string& path) {
  const CsvTable table = load_csv(path);
  ReadLog log;
  const std::vector<const Column*> heading = match_heading(table, log);
  log.throw_if_errors();
  std::vector<RunRow> rows;
  std::set<std::string> ids;
  for (const auto& cells : table.rows) {
    RunRow& row = rows.emplace_back();
    row.file = path;
    row.line = cells.front().line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (heading[c] == nullptr || cells[c].text.empty()) continue;
      const Problem problem = heading[c]->set(row, cells[c].text);
      if (!problem.empty()) log.add(diagnostic_at(table, cells[c], heading[c]->name + ": " + problem));
    }
    if (row.id.empty()) log.add(diagnostic_at(table, cells.front(), "this row has no id"));
    if (!row.id.empty() && !ids.insert(row.id).second)
      log.add(diagnostic_at(table, cells.front(), fmt::format("the id '{}' occurs twice", row.id)));
  }
  log.throw_if_errors();
  return rows;
}

}  // namespace panpipe
