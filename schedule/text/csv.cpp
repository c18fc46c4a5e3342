// Schedules as text: PyTorch's CSV (torch.distributed.pipelining, `_dump_csv` and `_load_csv`) and our superset of it.
//
// A row is a rank, a cell an action, an empty cell an idle slot. Rows end in CR LF, as Python's csv.writer ends them. Ours adds
// header lines, written only when the rows do not imply them:
//   #pipeline ranks=4 microbatches=8 stages=8 seq_splits=1
//   #chain 0,1,2,3            one line for each forward path
//   #place 0,1,2,3            rank of each stage
// and comments ("# " and any text), the actions R, OFFLOAD, RELOAD, OPT, SYNC, groups of other kinds, and sequence splits.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/input/error_with_caret.hpp"
#include "base/input/source_text.hpp"
#include "base/input/yaml_document.hpp"
#include "base/text/text_style.hpp"
#include "schedule/limits.hpp"
#include "schedule/rolling.hpp"
#include "schedule/schedule.hpp"
#include "schedule/text/csv_cell.hpp"
#include "schedule/text/csv_header.hpp"
#include "schedule/text/csv_shape.hpp"

namespace panpipe {
namespace {

constexpr std::size_t kMaxFaults = 20;            // as compilers do
constexpr long long kLargestOrder = 256LL << 20;  // kMaxActions of the longest names, and as many empty cells
constexpr std::size_t kShownWidth = 100;          // of a cell

using Line = CsvLine;

struct Place {
  int line = 0, cell = 0;
};

class CsvReader {
 public:
  CsvReader(const std::string& text, const std::string& name) {
    source_.name = name;
    empty_ = checked_text(text, source_).empty();
  }

  Schedule run() {
    if (empty_) fail("the file is empty", "a schedule has a row of actions for each rank: 0F0,0F1,0B0,0B1");
    read_lines();
    throw_if_faults();
    if (schedule_.order.empty()) fail("there are no rows", "a schedule has a row of actions for each rank: 0F0,0F1,0B0,0B1");
    settle_letters();
    check_placement();
    throw_if_faults();
    settle_shape();
    throw_if_faults();
    check_repetition();
    throw_if_faults();
    drop_empty_cells_if_none();
    return std::move(schedule_);
  }

 private:
  using Row = std::vector<Action>;

  // --- faults ---
  void add_fault(const Line& line, std::size_t column, const std::string& message, const std::string& help) {
    if (faults_.size() >= kMaxFaults) return;
    faults_.push_back(render_diagnostic(source_, false, line.number,
                                        character_column(source_, line.number, static_cast<int>(column)), "", message,
                                        helps_.insert(help).second ? help : ""));  // each help once
  }

  void throw_if_faults() {
    if (!faults_.empty()) throw InputError(std::move(faults_));
  }
  [[noreturn]] void fail(const std::string& message, const std::string& help) {
    throw InputError({diagnostic_of_file(source_.name, message, help)});
  }
  // A fault at a cell that was read before.
  void fault_at(std::size_t rank, std::size_t action, const std::string& message, const std::string& help) {
    const Place& place = places_[rank][action];
    const Line& line = row_lines_[rank];
    std::size_t column = 0;
    for (int cell = 1; cell < place.cell; ++cell) column = line.text.find(',', column) + 1;
    add_fault(line, column, fmt::format("cell {}, {}: {}", place.cell, to_text(schedule_.order[rank][action]), message), help);
  }

  // --- lines and cells ---
  void read_lines() {
    int empty_line = 0;
    for (int number = 1; number <= static_cast<int>(source_.lines.size()); ++number) {
      const std::string_view line = source_.lines[number - 1];
      if (line.empty()) {
        if (empty_line == 0) empty_line = number;
        continue;
      }
      if (empty_line != 0)
        add_fault({empty_line, ""}, 0, "an empty line: every row is a rank, and every rank has actions", "remove the line");
      empty_line = 0;
      if (line[0] == '#') {
        read_header({number, line});
      } else {
        read_row({number, line});
      }
    }
  }

  void read_row(const Line& line) {
    Row row;
    std::vector<Place> places;
    std::vector<std::int32_t> empty;
    std::int32_t waiting = 0;
    std::size_t first = 0;
    for (int cell = 1;; ++cell) {
      const std::size_t end = std::min(line.text.find(',', first), line.text.size());
      std::size_t from = first, to = end;
      const auto trim = [&] {
        while (from < to && (line.text[from] == ' ' || line.text[from] == '\t')) ++from;
        while (to > from && (line.text[to - 1] == ' ' || line.text[to - 1] == '\t')) --to;
      };
      trim();
      if (to > from + 1 && line.text[from] == '"' && line.text[to - 1] == '"') {  // as spreadsheets write texts
        ++from;
        --to;
        trim();
      }
      if (from == to) {
        ++waiting;
      } else {
        read_cell(line, line.text.substr(from, to - from), from, cell, row, places);
        while (empty.size() < row.size()) empty.push_back(std::exchange(waiting, 0));
      }
      if (end == line.text.size()) break;
      first = end + 1;
    }
    empty.push_back(waiting);
    actions_ += static_cast<double>(row.size());
    if (actions_ > kMaxActions)
      fail(fmt::format("line {}: more than {:g} million actions, what 8 GB of memory hold", line.number, kMaxActions / 1e6),
           "fewer microbatches, or fewer stages a rank");
    if (row.empty() && faults_.empty())
      add_fault(line, 0, "a row of empty cells: every row is a rank, and every rank has actions", "remove the line");
    schedule_.order.push_back(std::move(row));
    schedule_.empty_cells.push_back(std::move(empty));
    places_.push_back(std::move(places));
    row_lines_.push_back(line);
  }

  void read_cell(const Line& line, std::string_view text, std::size_t column, int cell, Row& row, std::vector<Place>& places) {
    cell_.clear();
    CellFault fault;
    if (!parse_cell(text, cell_, fault)) {
      add_fault(line, column + fault.offset,
                fmt::format("cell {}, '{}': {}", cell, shortened(std::string(text), kShownWidth), fault.message), fault.help);
      return;
    }
    for (const CellAction& parsed : cell_) {
      if (parsed.full_backward) full_backwards_.emplace_back(schedule_.order.size(), row.size());
      row.push_back(parsed.action);
      places.push_back({line.number, cell});
    }
  }

  void read_header(const Line& line) {
    if (line.text.size() == 1 || line.text[1] == ' ') return;  // a comment
    if (!schedule_.order.empty()) return add_fault(line, 0, "a header line after the first row", "move it before the rows");
    read_csv_header(line, header_,
                    [this](const Line& at, std::size_t column, const std::string& message, const std::string& help) {
                      add_fault(at, column, message, help);
                    });
  }

  // --- letters of files written before late 2024: B = input gradient, BW = full backward ---
  void settle_letters() {
    std::optional<std::pair<std::size_t, std::size_t>> input_gradient;
    std::vector<std::tuple<int, int, int>> full, weight;
    for (std::size_t rank = 0; rank < schedule_.order.size(); ++rank)
      for (std::size_t i = 0; i < schedule_.order[rank].size(); ++i) {
        const Action& a = schedule_.order[rank][i];
        if (a.kind == ActionKind::I && !input_gradient) input_gradient.emplace(rank, i);
        if (a.kind == ActionKind::B) full.emplace_back(a.stage, a.microbatch, a.split);
        if (a.kind == ActionKind::W) weight.emplace_back(a.stage, a.microbatch, a.split);
      }
    bool older = !full_backwards_.empty();
    if (older && input_gradient)
      return fault_at(input_gradient->first, input_gradient->second,
                      fmt::format("the file mixes the letters I and BW (line {})", row_lines_[full_backwards_[0].first].number),
                      "write I for the input gradient and B for the full backward everywhere");
    if (!older && !input_gradient) {
      std::sort(full.begin(), full.end());
      older = std::any_of(weight.begin(), weight.end(),
                          [&](const auto& w) { return std::binary_search(full.begin(), full.end(), w); });
    }
    if (!older) return;
    for (auto& row : schedule_.order)
      for (Action& a : row)
        if (a.kind == ActionKind::B) a.kind = ActionKind::I;
    for (const auto& [rank, i] : full_backwards_) schedule_.order[rank][i].kind = ActionKind::B;
    schedule_.notes.push_back(
        "the file uses the letters of 2024 (B = input gradient, BW = full backward); they were read as I and B");
  }

  // --- facts from all rows together ---
  void check_placement() {
    const auto actions = static_cast<std::size_t>(actions_);
    std::vector<std::int32_t> home(actions, -1);
    int stages = 0;
    for (std::size_t rank = 0; rank < schedule_.order.size(); ++rank)
      for (std::size_t i = 0; i < schedule_.order[rank].size(); ++i) {
        const int stage = schedule_.order[rank][i].stage;
        if (stage < 0) continue;
        if (static_cast<std::size_t>(stage) >= actions) {
          fault_at(rank, i, fmt::format("stage {} in a file of {} actions: stages below it are on no rank", stage, actions),
                   "number stages from 0 without gaps");
          return;
        }
        stages = std::max(stages, stage + 1);
        auto& owner = home[stage];
        if (owner < 0) owner = static_cast<std::int32_t>(rank);
        if (owner != static_cast<std::int32_t>(rank) && !header_.place_line) {
          fault_at(rank, i, fmt::format("stage {} is already on rank {} (line {})", stage, owner, row_lines_[owner].number),
                   "a stage lives on one rank: a row is a rank");
          return;
        }
      }
    for (int stage = 0; stage < stages; ++stage)
      if (home[stage] < 0)
        return add_fault(row_lines_[0], 0, fmt::format("no row has stage {}, but there is a stage {}", stage, stages - 1),
                         "number stages from 0 without gaps");
  }

  void settle_shape() {
    ScheduleShape shape = shape_of_rows(schedule_.order);
    const auto rows = static_cast<int>(schedule_.order.size());
    const auto stated = [&](const char* key, int fallback) {
      return header_.stated.count(key) != 0 ? header_.stated[key] : fallback;
    };
    const auto expect = [&](const Line& line, const std::string& key, long long header, long long found) {
      if (header != found) add_fault(line, 0, fmt::format("the header states {} {}, the rows have {}", header, key, found), "");
    };
    if (header_.pipeline_line) {
      expect(*header_.pipeline_line, "ranks", stated("ranks", rows), rows);
      expect(*header_.pipeline_line, "stages", stated("stages", shape.stages), shape.stages);
    }
    if (header_.place_line) {
      expect(*header_.place_line, "places", static_cast<long long>(header_.place.size()), shape.stages);
      for (const int rank : header_.place)
        if (rank >= rows)
          return add_fault(*header_.place_line, 0, fmt::format("rank {} of {}: ranks are numbered from 0", rank, rows), "");
      shape.stage_to_rank = header_.place;
    }
    if (!header_.chains.empty()) use_chains(shape);
    shape.splits = stated("seq_splits", shape.splits);
    shape.microbatches = stated("microbatches", shape.microbatches * static_cast<int>(shape.chains.size()));
    if (shape.stages == 0)
      add_fault(row_lines_[0], 0, "no row has a stage", "an action is a stage, a pass and a microbatch, such as 2F0");
    if (shape.microbatches % static_cast<int>(shape.chains.size()) != 0)
      add_fault(header_.chain_lines[0], 0,
                fmt::format("{} microbatches do not divide over {} chains", shape.microbatches, shape.chains.size()), "");
    throw_if_faults();
    check_amount(shape);
    schedule_.name = source_.name;
    schedule_.ranks = rows;
    schedule_.stages = shape.stages;
    schedule_.microbatches = shape.microbatches;
    schedule_.splits = shape.splits;
    if (find_action(schedule_, [](ActionKind kind) { return kind >= ActionKind::E; }) != nullptr)
      schedule_.vocabulary_barriers = stated("vocabulary_barriers", 1);
    schedule_.stage_to_rank = std::move(shape.stage_to_rank);
    schedule_.chains = std::move(shape.chains);
  }

  void use_chains(ScheduleShape& shape) {
    std::vector<int> times(shape.stages, 0);
    for (std::size_t i = 0; i < header_.chains.size(); ++i)
      for (const int stage : header_.chains[i]) {
        if (stage >= shape.stages) {
          add_fault(header_.chain_lines[i], 0, fmt::format("no row has stage {}", stage), "");
        } else if (++times[stage] == 2) {
          add_fault(header_.chain_lines[i], 0, fmt::format("stage {} is in a chain already", stage), "");
        }
      }
    for (int stage = 0; stage < shape.stages; ++stage)
      if (times[stage] == 0) add_fault(header_.chain_lines[0], 0, fmt::format("no chain has stage {}", stage), "");
    shape.chains = header_.chains;
  }

  // A wrong number must not make us reserve tables for a schedule that the file cannot hold.
  void check_amount(const ScheduleShape& shape) {
    constexpr double kAlwaysFine = 1e6;
    const double needed =
        static_cast<double>(shape.stages) * (shape.microbatches / static_cast<int>(shape.chains.size())) * shape.splits;
    if (needed <= kAlwaysFine || needed <= actions_) return;
    fail(fmt::format("{} stages, {} microbatches and {} sequence splits need {:.0f} forwards, but the file has {:.0f} actions",
                     shape.stages, shape.microbatches, shape.splits, needed, actions_),
         "correct the header line or the numbers in the cells");
  }

  void check_repetition() {
    const int microbatches = microbatches_of_chain(schedule_);
    for (std::size_t rank = 0; rank < schedule_.order.size(); ++rank) {
      std::map<std::tuple<ActionKind, int, int, int, bool>, std::size_t> seen;
      const auto& row = schedule_.order[rank];
      for (std::size_t i = 0; i < row.size(); ++i) {
        const Action& a = row[i];
        if (a.microbatch < 0) continue;
        if (header_.stated.count("microbatches") != 0 && a.microbatch >= microbatches)
          fault_at(rank, i, fmt::format("microbatch {} of {}: they are numbered from 0", a.microbatch, microbatches), "");
        // Tensors that were parked before the input gradient may be parked again after it.
        const bool again = is_copy(a.kind) && seen.count({ActionKind::I, a.stage, a.microbatch, a.split, false}) != 0;
        const auto [first, is_new] = seen.try_emplace({a.kind, a.stage, a.microbatch, a.split, again}, i);
        if (!is_new)
          fault_at(rank, i, fmt::format("occurs twice; the first is in cell {}", places_[rank][first->second].cell),
                   "every stage runs every pass of a microbatch once");
      }
    }
  }

  void drop_empty_cells_if_none() {
    for (const auto& row : schedule_.empty_cells)
      for (const std::int32_t count : row)
        if (count != 0) return;
    schedule_.empty_cells.clear();
  }

  SourceText source_;
  bool empty_ = false;
  Schedule schedule_;
  std::vector<Diagnostic> faults_;
  std::set<std::string> helps_;
  std::vector<CellAction> cell_;
  std::vector<std::vector<Place>> places_;  // per rank and action
  std::vector<Line> row_lines_;
  double actions_ = 0;

  std::vector<std::pair<std::size_t, std::size_t>> full_backwards_;  // (rank, action) spelt BW
  CsvHeader header_;
};

}  // namespace

Schedule read_schedule_csv(const std::string& text, const std::string& name) { return CsvReader(text, name).run(); }

Schedule load_schedule_csv(const std::string& path) { return read_schedule_csv(read_text_file(path, kLargestOrder), path); }

}  // namespace panpipe
