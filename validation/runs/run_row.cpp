#include "validation/runs/run_row.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "base/input/reader.hpp"
#include "base/text/csv_text.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "validation/runs/csv_table.hpp"
#include "validation/runs/run_choices.hpp"

namespace panpipe::validation {
namespace {

constexpr const char* kEqualLayers = "equal-layers";
constexpr const char* kStagesByCost = "by-cost";
constexpr const char* kStagesByWeights = "by-weights";

using Problem = std::string;  // empty: none
struct Column {
  std::string name;
  std::function<Problem(RunRow&, const std::string&)> set;  // of a cell that is not empty
  std::function<std::string(const RunRow&)> get;            // empty: not stated
};

template <typename Value>
std::function<std::string(const RunRow&)> stated(std::optional<Value> RunRow::*member) {
  return [member](const RunRow& row) { return row.*member ? fmt::format("{}", *(row.*member)) : std::string(); };
}

Column text(const char* name, std::string RunRow::*member) {
  return {name,
          [member](RunRow& row, const std::string& cell) {
            row.*member = cell;
            return Problem();
          },
          [member](const RunRow& row) { return row.*member; }};
}

Column count(const char* name, std::optional<int> RunRow::*member, int least) {
  return {name,
          [member, least](RunRow& row, const std::string& cell) {
            const Parsed<long long> parsed = parse_integer(cell);
            if (!parsed.value) return parsed.problem;
            if (*parsed.value < least || *parsed.value > std::numeric_limits<int>::max())
              return fmt::format("expected a whole number from {}, not {}", least, cell);
            row.*member = static_cast<int>(*parsed.value);
            return Problem();
          },
          stated(member)};
}

Column number(const char* name, std::optional<double> RunRow::*member) {
  return {name,
          [member](RunRow& row, const std::string& cell) {
            const Parsed<double> parsed = parse_number(cell);
            if (!parsed.value) return parsed.problem;
            if (*parsed.value <= 0) return fmt::format("must be positive, not {}", cell);
            row.*member = *parsed.value;
            return Problem();
          },
          stated(member)};
}

// A number of seconds.
Column time(const char* name, std::optional<double> RunRow::*member) {
  return {name,
          [as_number = number(name, member).set](RunRow& row, const std::string& cell) {
            const Problem problem = as_number(row, cell);
            return problem.empty() ? parse_duration(cell + " s").problem : problem;
          },
          stated(member)};
}

// One of a few words.
Column choice(const char* name, std::string RunRow::*member, const std::vector<std::string>& words) {
  return {name,
          [member, words](RunRow& row, const std::string& cell) {
            if (std::find(words.begin(), words.end(), cell) == words.end())
              return fmt::format("expected {}, not '{}'", fmt::join(words, " or "), cell);
            row.*member = cell;
            return Problem();
          },
          [member](const RunRow& row) { return row.*member; }};
}

Column truth(const char* name, std::optional<bool> RunRow::*member) {
  return {name,
          [member](RunRow& row, const std::string& cell) {
            if (cell != "true" && cell != "false") return fmt::format("expected true or false, not '{}'", cell);
            row.*member = cell == "true";
            return Problem();
          },
          stated(member)};
}

// A key of `framework:`; its words are the scenario's to check.
Column framework_choice(const std::string& key) {
  return {key,
          [key](RunRow& row, const std::string& cell) {
            row.framework_choices[key] = cell;
            return Problem();
          },
          [key](const RunRow& row) {
            const auto found = row.framework_choices.find(key);
            return found == row.framework_choices.end() ? std::string() : found->second;
          }};
}

std::vector<Column> make_columns() {
  std::vector<Column> all = {text("id", &RunRow::id),
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
                             count("head_size", &RunRow::head_size, 1),
                             count("ffn", &RunRow::ffn, 1),
                             count("seq", &RunRow::seq, 1),
                             count("vocab", &RunRow::vocab, 1),
                             count("global_batch", &RunRow::global_batch, 1),
                             count("micro_batch", &RunRow::micro_batch, 1),
                             count("tp", &RunRow::tp, 1),
                             count("pp", &RunRow::pp, 1),
                             count("dp", &RunRow::dp, 1),
                             count("context_size", &RunRow::context_size, 1),
                             text("context_exchange", &RunRow::context_exchange),
                             count("expert_size", &RunRow::expert_size, 1),
                             text("schedule", &RunRow::schedule),
                             count("virtual_stages", &RunRow::virtual_stages, 1),
                             text("recompute", &RunRow::recompute),
                             truth("seq_parallel", &RunRow::seq_parallel),
                             count("zero", &RunRow::zero, 0),
                             text("precision", &RunRow::precision),
                             time("step_s", &RunRow::step_s),
                             choice("step_kind", &RunRow::step_kind, {"step", "period"}),
                             number("peak_gib", &RunRow::peak_gib),
                             choice("peak_kind", &RunRow::peak_kind, {"device", "allocated", "reserved"}),
                             text("note", &RunRow::note)};
  all.push_back(choice("stages", &RunRow::stages, {kEqualLayers, kStagesByCost, kStagesByWeights}));
  all.push_back(text("scenario", &RunRow::scenario));
  all.push_back(text("optimizer", &RunRow::optimizer));
  all.push_back(text("offload", &RunRow::offload));
  all.push_back(choice("tied_embedding", &RunRow::tied_embedding, {"true", "false"}));
  all.push_back(text("attention_kernel", &RunRow::attention_kernel));
  all.push_back(choice("fair", &RunRow::fair, {"yes", "no"}));
  all.push_back(text("family", &RunRow::family));
  all.push_back(time("first_sight_s", &RunRow::first_sight_s));
  for (const std::string& key : framework_columns()) all.push_back(framework_choice(key));
  return all;
}

const std::vector<Column>& columns() {
  static const std::vector<Column> all = make_columns();
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
    if (!seen.count(needed) && (needed != std::string_view("gpu") || !seen.count("scenario")))
      log.add(diagnostic_at(table, table.heading.front(), fmt::format("the heading has no column '{}'", needed),
                            "the columns are described in docs/validate.md"));
  return found;
}

// In files that have neither `step_kind` nor `peak_kind`, words of `source`, `note` and `attention_kernel` state what cells
// state elsewhere. The rows below count in this order.
struct Words {
  const char* words;  // "": in any row
  const char* column;
  const char* before;  // what the cell holds; nullptr: anything
  const char* after;
  bool (*of)(const RunRow&) = nullptr;  // of these rows alone
};

bool of_pytorch(const RunRow& row) { return row.framework == "eager"; }
bool of_nanotron(const RunRow& row) { return row.framework == "nanotron"; }
constexpr int kHiddenOf3B = 3072, kGpt2Vocabulary = 50257;

constexpr Words kWords[] = {
    {"", "peak_kind", "", "allocated", of_pytorch},
    {"max_memory_allocated", "peak_kind", "", "allocated"},
    {"synchronising", "step_kind", "", "step"},
    {"bf16 optimizer", "precision", "16bit-mixed", "bf16-mixed"},
    {"; tf32", "precision", nullptr, "tf32"},
    {", SGD", "optimizer", "", "sgd"},
    {"untied embeddings", "tied_embedding", "", "false"},
    {"tied embeddings in 1B and 3B", "tied_embedding", "", "true",
     [](const RunRow& row) { return row.hidden && *row.hidden <= kHiddenOf3B; }},
    {"tied embeddings in 1B and 3B", "tied_embedding", "", "false"},
    {"no dropout", "dropout", "", "false"},
    {"autocast", "autocast", "", "true"},
    {"AMP", "autocast", "", "true"},
    {"GradScaler", "gradient_scaler", "", "true"},
    {"fused Adam", "optimizer_kernel", "", "fused"},
    {"gradient reduce", "overlap_reduce_scatter", "", "true"},
    {"parameter gather overlapped", "overlap_parameter_gather", "", "true"},
    // A trainer that is named, in addition to the preset that comes nearest.
    {"torch.compile", "framework", "eager", "torch-compile"},
    {"SDPA flash", "framework", "eager", "eager-sdpa"},
    {"chunked cross-entropy", "framework", "eager-sdpa", "eager-sdpa-chunked-loss"},
    {"nanotron", "framework", "stp", "nanotron"},
    {"torchtitan", "framework", "torch-compile", "torchtitan"},
    {"timm", "framework", "eager", "timm"},
    {"; HF; ", "framework", "eager", "huggingface"},
    {"languini", "framework", "torch-compile", "torch-compile-2.0"},  // of 2023
    {"fms", "framework", "eager-sdpa", "fms-fsdp"},
    {"under DeepSpeed", "framework", "eager-sdpa", "deepspeed"},
    {"bf16 O2", "framework", "megatron", "nemo"},
    {"communication overlapped", "framework", "flash-attn", "nemo-performance"},
    {"Transformer Engine", "framework", "flash-attn", "megatron-core"},
    // Its log's peak is what PyTorch's allocator has given out.
    {"", "peak_kind", "", "allocated", [](const RunRow& row) { return of_nanotron(row) && row.peak_gib; }},
    {"fp32 gradient accumulation", "gradient_accumulation", "", "fp32", of_nanotron},
    // GPT-2 is the model of transformers whose activation is a chain of operators.
    {"", "activation", "", "operators",
     [](const RunRow& row) { return row.framework == "huggingface" && row.vocab == kGpt2Vocabulary; }}};

void take_words(RunRow& row) {
  const std::string text = row.source + "; " + row.note + "; " + row.attention_kernel;
  for (const Words& known : kWords) {
    if (text.find(known.words) == std::string::npos || (known.of != nullptr && !known.of(row))) continue;
    const Column& column =
        *std::find_if(columns().begin(), columns().end(), [&](const Column& c) { return c.name == known.column; });
    if (known.before != nullptr && column.get(row) != known.before) continue;
    column.set(row, known.after);
    row.assumed.push_back(fmt::format("{}: {}", known.column, known.after));
    if (*known.words != '\0') row.assumed.back() += fmt::format(" (from '{}')", known.words);
  }
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

std::string run_csv(const RunRow& row) { return csv_with_row({}, row); }

std::string csv_with_row(const CsvTable& table, const RunRow& row) {
  std::vector<std::string> heading;
  for (const CsvCell& cell : table.heading) heading.push_back(cell.text);
  std::map<std::string, std::string> stated;
  for (const Column& column : columns()) {
    const std::string cell = column.get(row);
    if (cell.empty()) continue;
    stated[column.name] = cell;
    if (std::find(heading.begin(), heading.end(), column.name) == heading.end()) heading.push_back(column.name);
  }
  std::string text;
  const auto add = [&](const auto& cell_of) {
    for (std::size_t c = 0; c < heading.size(); ++c) text.append(c == 0 ? "" : ",").append(csv_cell(cell_of(c)));
    text += "\n";
  };
  add([&](std::size_t c) { return heading[c]; });
  const auto id = std::find(heading.begin(), heading.end(), "id") - heading.begin();
  for (const std::vector<CsvCell>& cells : table.rows)
    if (cells[id].text != row.id) add([&](std::size_t c) { return c < cells.size() ? cells[c].text : std::string(); });
  add([&](std::size_t c) { return stated[heading[c]]; });
  return text;
}

std::vector<RunRow> read_runs(const std::string& path) { return read_runs(load_csv(path), path); }

std::vector<RunRow> read_runs(const CsvTable& table, const std::string& path) {
  ReadLog log;
  const std::vector<const Column*> heading = match_heading(table, log);
  log.throw_if_errors();
  const bool words_count = std::none_of(heading.begin(), heading.end(), [](const Column* column) {
    return column != nullptr && (column->name == "step_kind" || column->name == "peak_kind");
  });
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
    if (words_count) take_words(row);
    if (row.id.empty()) log.add(diagnostic_at(table, cells.front(), "this row has no id"));
    if (!row.id.empty() && !ids.insert(row.id).second)
      log.add(diagnostic_at(table, cells.front(), fmt::format("the id '{}' occurs twice", row.id)));
  }
  log.throw_if_errors();
  return rows;
}

}  // namespace panpipe::validation
