// A measured training run as a row of a table: what was trained, on what, how it was split, and how long a step took. Columns:
// docs/validate.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace panpipe {

struct CsvTable;

// An absent value means "not stated".
struct RunRow {
  std::string file;
  int line = 0;
  std::string id, source, where, confidence, framework, gpu, fabric, schedule, recompute, precision, note;
  std::string step_kind, peak_kind;
  std::string stages, optimizer, attention_kernel, tied_embedding;
  std::map<std::string, std::string> framework_choices;  // by column, which is a key of `framework:`
  std::optional<int> gpus, gpus_per_node;
  std::optional<int> layers, hidden, heads, kv_heads, head_size, ffn, seq, vocab;
  std::optional<int> global_batch, micro_batch, tp, pp, dp, context_size, expert_size, virtual_stages, zero;
  std::optional<bool> seq_parallel;
  std::optional<double> step_s, peak_gib;
  std::vector<std::string> assumed;  // "framework: eager-sdpa (from the note)": columns that a file of an earlier release lacks
};

// Throws InputError with everything that is wrong: a file without `id`, a value that is no number, a repeated id, a column
// whose name is nearly one of ours. Other columns that we do not know are left alone.
std::vector<RunRow> read_runs(const std::string& path);
std::vector<RunRow> read_runs(const CsvTable& table, const std::string& path);

// A table of this one row, with the columns that it states.
std::string run_csv(const RunRow& row);

// The columns that are read.
const std::vector<std::string>& run_columns();

}  // namespace panpipe
