// A measured training run as a row of a table: model, machine, parallelism, and step time. Columns: docs/validate.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace panpipe::validation {

struct CsvTable;

// An absent value means "not stated".
struct RunRow {
  std::string file;
  int line = 0;
  std::string id, source, where, confidence, framework, gpu, fabric, schedule, recompute, precision, note;
  std::string step_kind, peak_kind;
  std::string stages, context_exchange, optimizer, offload, attention_kernel, tied_embedding;
  // States the run in place of the columns of model, machine and split: its text, or a file in the table's folder or below.
  std::string scenario;
  std::string fair;                                      // "no": columns that determine the step are not known
  std::string family;                                    // of sources: those of one publisher, who shares habits and machines
  std::map<std::string, std::string> framework_choices;  // by column; each column is a key of `framework:`
  std::optional<int> gpus, gpus_per_node;
  std::optional<int> layers, hidden, heads, kv_heads, head_size, ffn, seq, vocab;
  std::optional<int> global_batch, micro_batch, tp, pp, dp, context_size, expert_size, virtual_stages, zero;
  std::optional<bool> seq_parallel;
  std::optional<double> step_s, peak_gib;
  std::optional<double> first_sight_s;  // predicted before anything was fitted to this source
  std::vector<std::string> assumed;     // "framework: timm (from 'timm')": derived from words of the row
};

// Throws InputError with all faults: a file without `id`, a value that is not a number, a repeated id, or a column whose name is
// nearly a known one. Other unknown columns are ignored.
std::vector<RunRow> read_runs(const std::string& path);
std::vector<RunRow> read_runs(const CsvTable& table, const std::string& path);

// A table with only this row and the columns that it states.
std::string run_csv(const RunRow& row);

// The table with the row as its last one: in place of a row of the same id, with the columns that the table lacks. Cells of
// unknown columns stay. The table has a column `id`, as read_runs checks.
std::string csv_with_row(const CsvTable& table, const RunRow& row);

// The known columns.
const std::vector<std::string>& run_columns();

}  // namespace panpipe::validation
