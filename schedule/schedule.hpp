// A schedule: for each rank the ordered actions of one step. Families, text form, legality, evaluation with plain costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schedule/action.hpp"

namespace panpipe {

struct Schedule {
  std::string name;  // family, or the file's name
  int ranks = 0;
  int microbatches = 0;
  int stages = 0;
  int splits = 1;  // sequence splits
  std::vector<int> stage_to_rank;
  std::vector<std::vector<int>> chains;    // forward paths: ordered stages
  std::vector<std::vector<Action>> order;  // per rank; groups flattened as action.hpp says
  // Empty cells of a file that has them, so that it is written back as it was: per rank the number before each action of `order`,
  // and after the last one. Empty when there are none.
  std::vector<std::vector<std::int32_t>> empty_cells;
  std::vector<std::string> notes;  // what the reader did beyond reading (letters of an older dialect rewritten)
  // Searched families state it: no order of these sizes within this memory has a shorter step, under the costs of the search.
  std::optional<double> lower_bound;
};

using ScheduleOptions = std::map<std::string, std::string>;

// One time per pass, the same on every stage, in any unit.
struct PassCosts {
  double F = 1, I = 1, W = 1;
  std::optional<double> B;         // default I + W
  double comm = 0;                 // delay of an input made on another rank
  double offload = 1;              // moving one activation to the host, on the rank's copy lane
  std::optional<double> reload{};  // back again; default as offload
  double waiting = 1;              // share of an activation that stays from I to W, of copies of what waits there
  // Where stages differ: of each stage instead of the above; empty = all alike.
  struct Stage {
    double F = 1, I = 1, W = 1;
  };
  std::vector<Stage> stages{};
};

// The row of a family, defined in the family's own file in families/ and listed in families.cpp. Whatever else planners want to
// know of a family they read off the orders that it makes.
struct ScheduleFamily {
  std::string_view name;
  std::string_view summary;
  std::string_view source;                                             // where the order was published
  std::vector<std::pair<std::string_view, std::string_view>> options;  // key, default as text ("2", "M", "P")
  // A searched family makes its order for given costs; the others know one order for all.
  using Fixed = Schedule (*)(int ranks, int microbatches, const ScheduleOptions& options);
  using Searched = Schedule (*)(int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs);
  std::variant<Fixed, Searched> generate;
  // Why there is no order of these sizes, empty where there is one; without this function there is one of every size.
  std::string (*refusal)(int ranks, int microbatches, const ScheduleOptions& options) = nullptr;
  bool planned =
      true;  // where the schedule is open, planners try it, with as many stages a rank as it takes and else its defaults

  bool searched() const { return std::holds_alternative<Searched>(generate); }
  std::string refused(int ranks, int microbatches, const ScheduleOptions& given) const {
    return refusal == nullptr ? "" : refusal(ranks, microbatches, given);
  }
};
const std::vector<ScheduleFamily>& schedule_families();

// Throws InputError for an unknown family or option (with "did you mean"), or sizes the family does not exist for (why).
// `costs` are those a searched family optimises for.
Schedule make_schedule(std::string_view family, int ranks, int microbatches, const ScheduleOptions& options = {},
                       const PassCosts& costs = {});

// --- text form (PyTorch's CSV and our superset; docs/file-formats.md) ---
// Infers stages, placement and chains; "#" header lines override. Strict: InputError with line and cell for junk, duplicates,
// out-of-range, empty groups; legacy files (B = input gradient, BW = full) are recognised and rewritten.
Schedule read_schedule_csv(const std::string& text, const std::string& name);
Schedule load_schedule_csv(const std::string& path);
std::string to_csv(const Schedule& schedule, bool for_torch);  // for_torch: throws InputError when PyTorch could not express it

// --- legality ---
struct ScheduleProblem {
  int rank = -1;
  int position = -1;  // cell in the rank's row, from 0, empty cells not counted; -1 = no cell (something is missing)
  std::string action;
  std::string message;
};
// Everything that is wrong, the first fault first: exactly once per (stage, microbatch), ranges, stage on its rank, F before
// I before W, and an order that cannot finish (each rank's blocked action and the cycle). Empty = legal.
std::vector<ScheduleProblem> check_schedule(const Schedule& schedule);

// --- evaluation with one cost per pass (`panpipe schedule --costs`) ---
struct ScheduleEvaluation {
  double makespan = 0;
  double span = 0;  // worst rank's first start to last end
  std::vector<double> busy;
  double bubble_step = 0;  // 1 - busy / makespan over all ranks
  double bubble_span = 0;  // 1 - busy / span over all ranks, each its own span
  std::vector<int> peak_activations;
  std::vector<std::vector<std::pair<double, double>>> times;  // per rank, per action of `order`: start, end
};
// The schedule must be legal. Groups run as one unit (duration = sum, outputs at the end) unless split_groups.
ScheduleEvaluation evaluate(const Schedule& schedule, const PassCosts& costs, bool split_groups = false);

// Steps down, ranks across, as PyTorch prints orders; the first problem's cell is marked "<-- ERROR HERE". Long rows are shown
// around the mark only.
std::string grid(const Schedule& schedule, const std::vector<ScheduleProblem>& problems);

// A drawing for the terminal: a row per rank, `width` columns at most.
std::string draw(const Schedule& schedule, const ScheduleEvaluation& evaluation, int width, bool color);

// The document panpipe-schedule/1 as JSON text.
std::string to_json(const Schedule& schedule, const std::vector<ScheduleProblem>& problems,
                    const std::optional<ScheduleEvaluation>& evaluation);

}  // namespace panpipe
