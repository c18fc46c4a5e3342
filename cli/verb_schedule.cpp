// panpipe schedule: print, draw, convert and check the order of a family or of a file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/text/counted.hpp"
#include "base/text/text_table.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "present/picture/schedule_picture.hpp"
#include "schedule/memory/memory_sweep.hpp"
#include "schedule/rolling.hpp"
#include "schedule/schedule.hpp"
#include "schedule/schedule_request.hpp"
#include "schedule/transfer_report.hpp"

namespace panpipe::cli {
namespace {

struct Settings {
  std::string name_or_file;
  std::optional<int> ranks, microbatches;
  std::vector<std::string> options;
  std::string costs, output, lower, semantics;
  bool drawing = false, json = false, csv = false, torch = false, svg = false, list = false, defer_receives = false,
       memory_sweep = false;
};

std::string table_of_families() {
  TextTable table({"<", "<"}, 0);
  for (const ScheduleFamily& family : schedule_families()) {
    table.row({std::string(family.name), std::string(family.summary)});
    for (const auto& [key, fallback] : family.options) table.row({"", fmt::format("  --option {}={}", key, fallback)});
  }
  return table.text() +
         "  P = ranks, M = microbatches. Every schedule: --option braid=split runs the members of a group one by one;\n"
         "  recompute=full and offload=selective|full insert what holds less memory.\n";
}

ScheduleOptions parse_options(const std::vector<std::string>& given, bool& split_groups) {
  ScheduleOptions options;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError(fmt::format("--option takes KEY=VALUE, such as stages_per_rank=2, not '{}'", text));
    const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
    if (!options.emplace(key, value).second) throw InputError(fmt::format("option '{}' is given twice", key));
  }
  split_groups = take_braid(options);
  return options;
}

constexpr int kDrawingWidth = 120;  // where standard output is no terminal

std::string sizes(const Schedule& schedule) {
  return fmt::format("{}: {}, {}, {}", schedule.name, counted(schedule.ranks, "rank"), counted(schedule.stages, "stage"),
                     schedule.microbatches == 1 ? "1 microbatch" : fmt::format("{} microbatches", schedule.microbatches));
}

// A long pipeline is shortened to its two ends; --json has all.
std::string by_rank(const std::vector<int>& peaks) {
  constexpr std::size_t kMost = 32, kEnd = 8;
  if (peaks.size() <= kMost) return fmt::format(" (rank by rank: {})", fmt::join(peaks, " "));
  return fmt::format(" (rank by rank: {} ... {})", fmt::join(peaks.begin(), peaks.begin() + kEnd, " "),
                     fmt::join(peaks.end() - kEnd, peaks.end(), " "));
}

std::string summary(const Schedule& schedule, const ScheduleEvaluation& evaluation) {
  int least = evaluation.peak_activations[0], most = least;
  for (const int peak : evaluation.peak_activations) {
    least = std::min(least, peak);
    most = std::max(most, peak);
  }
  std::string notes;
  if (evaluation.period)
    notes =
        fmt::format("without a flush: a step every {:.12g}; gradients are stale by {}, and a rank holds {} of the weights\n",
                    *evaluation.period, counted(staleness(schedule), "update"), counted(weight_versions(schedule), "version"));
  if (schedule.lower_bound) notes += fmt::format("{}\n", fmt::join(schedule.notes, "\n"));
  return fmt::format(
      "{}: legal\n"
      "makespan {:.12g}, longest span of a rank {:.12g}; bubble {:.2f} % of the step, {:.2f} % of the spans\n"
      "activations held at once: {} at most on a rank{}\n{}",
      sizes(schedule), evaluation.makespan, evaluation.span, 100 * evaluation.bubble_step, 100 * evaluation.bubble_span, most,
      least == most ? std::string() : by_rank(evaluation.peak_activations), notes);
}

std::string fault_report(const Schedule& schedule, const std::vector<ScheduleProblem>& problems) {
  std::string text = sizes(schedule) + ": not legal\n";
  for (const ScheduleProblem& problem : problems) {
    if (problem.rank >= 0) text += fmt::format("rank {}: ", problem.rank);
    if (problem.position >= 0) text += fmt::format("step {}: ", problem.position);
    text += fmt::format("{}{}{}\n", problem.action, problem.action.empty() ? "" : " ", problem.message);
  }
  return text + grid(schedule, problems);
}

bool wants_svg(const Settings& settings) {
  return settings.svg || (settings.output.size() > 4 && settings.output.ends_with(".svg"));
}

// Exits 1 when the order stops under the one semantics that was asked for; `all` is a comparison.
int show_transfers(const Settings& settings, const Schedule& schedule, const PassCosts& costs) {
  const TransferReport report = report_transfers(schedule, costs, parse_semantics(settings.semantics));
  deliver(settings.output, settings.json ? report.json : sizes(schedule) + "\n" + report.text);
  return report.finishes || settings.semantics == "all" ? 0 : static_cast<int>(ExitCode::CheckFailed);
}

int show_memory_sweep(const Settings& settings, const ScheduleOptions& options, const PassCosts& costs) {
  if (!options.empty())
    throw InputError(fmt::format("option '{}' makes no sense with --memory-sweep, which goes through all memory limits",
                                 options.begin()->first));
  if (!settings.ranks || !settings.microbatches)
    throw InputError("--memory-sweep needs both sizes: panpipe schedule v-auto --memory-sweep --ranks 4 --microbatches 8");
  const MemorySweep sweep = sweep_memory(settings.name_or_file, *settings.ranks, *settings.microbatches, costs);
  deliver(settings.output, settings.json ? to_json(sweep) : wants_svg(settings) ? to_svg(sweep) : to_text(sweep));
  return 0;
}

int show_schedule(const Settings& settings) {
  if (settings.list) {
    print(table_of_families());
    return 0;
  }
  if (!settings.output.empty()) check_outputs({settings.output}, kAdvice);
  if (settings.name_or_file.empty())
    throw InputError("no schedule is given: name a family (panpipe schedule --list shows them) or a CSV file");
  bool split_groups = false;
  const ScheduleOptions options = parse_options(settings.options, split_groups);
  const PassCosts costs = parse_pass_costs(settings.costs);
  if (settings.memory_sweep) return show_memory_sweep(settings, options, costs);
  const CommunicationChoice lowering = parse_lowering(settings.lower, settings.defer_receives);
  Schedule schedule = obtain_schedule({settings.name_or_file, settings.ranks, settings.microbatches}, options, costs);
  // The summary and --json state how good the order of a searched family is; the other forms have no place for it.
  const bool reported = schedule.lower_bound && !settings.drawing && !settings.csv && !settings.torch;
  for (const std::string& note : schedule.notes)
    if (!reported) print_note(fmt::format("{}: note: {}\n", schedule.name, note));
  std::vector<ScheduleProblem> problems = check_schedule(schedule);
  if (problems.empty() && (lowering.unshard || lowering.transfers)) {
    schedule = lowered(schedule, lowering);
    problems = check_schedule(schedule);
  }
  if (problems.empty() && !settings.semantics.empty()) return show_transfers(settings, schedule, costs);
  std::optional<ScheduleEvaluation> evaluation;
  if (problems.empty()) evaluation = evaluate(schedule, costs, split_groups);

  const bool color = settings.output.empty() && color_wanted();
  std::string text;
  if (settings.json) {
    text = to_json(schedule, problems, evaluation);
  } else if (settings.csv || settings.torch) {
    if (!settings.torch && rolling_of(schedule) == Rolling::Stale)
      throw InputError(
          fmt::format("a CSV holds the rows of one step, which are those of 1f1b: {} goes on without a flush", schedule.name),
          "name the family in a scenario (schedule: pipedream-2bw), or write --json");
    text = to_csv(schedule, settings.torch);
    if (!problems.empty()) print_note(fault_report(schedule, problems));
  } else if (wants_svg(settings) && evaluation) {
    text = to_svg(present::picture_of(schedule, *evaluation));
  } else if (wants_svg(settings)) {
    print_note(fault_report(schedule, problems));
    return static_cast<int>(ExitCode::CheckFailed);
  } else if (evaluation) {
    if (!settings.drawing) text = summary(schedule, *evaluation);
    text += draw(schedule, *evaluation, terminal_width() > 0 ? terminal_width() : kDrawingWidth, color);
  } else {
    text = fault_report(schedule, problems);
  }
  deliver(settings.output, text);
  return problems.empty() ? 0 : static_cast<int>(ExitCode::CheckFailed);
}

}  // namespace

void add_schedule_verb(CLI::App& sub, std::function<int()>& run) {
  auto settings = std::make_shared<Settings>();
  sub.add_option("NAME_OR_FILE", settings->name_or_file, "a family (see --list), or a CSV file with an order");
  sub.add_option("--ranks", settings->ranks, "number of pipeline ranks");
  sub.add_option("--microbatches", settings->microbatches, "number of microbatches in a step");
  sub.add_option("--option", settings->options, "KEY=VALUE of the family, such as stages_per_rank=2; repeat for more")
      ->expected(1)
      ->take_all();
  sub.add_option("--costs", settings->costs,
                 "time of each pass of a stage: F=1,I=1,W=1,B=2,comm=0,offload=1,reload=1; B is I+W and reload is offload unless "
                 "given; F=1/1/2/1: of each stage");
  CLI::Option* drawing = sub.add_flag("--draw", settings->drawing, "print the drawing alone");
  CLI::Option* json = sub.add_flag("--json", settings->json, "print the document panpipe-schedule/1");
  CLI::Option* csv = sub.add_flag("--csv", settings->csv, "print the order as CSV");
  CLI::Option* torch = sub.add_flag("--torch", settings->torch, "print the order as CSV that PyTorch loads");
  CLI::Option* svg = sub.add_flag("--svg", settings->svg, "draw the order as a picture; -o FILE.svg does so too");
  CLI::Option* sweep = sub.add_flag("--memory-sweep", settings->memory_sweep,
                                    "of a searched family: bubble against memory, as a table, --json or a picture (-o FILE.svg)");
  sweep->excludes(drawing)->excludes(csv)->excludes(torch);
  drawing->excludes(json)->excludes(csv)->excludes(torch)->excludes(svg);
  json->excludes(csv)->excludes(torch)->excludes(svg);
  svg->excludes(csv)->excludes(torch);
  sub.add_option("--lower", settings->lower,
                 "write communication into the order as PyTorch does: send-recv, unshard (ZeRO 3), or both with a comma");
  sub.add_flag("--defer-receives", settings->defer_receives,
               "with --lower send-recv: receives right before the pass that needs them");
  sub.add_option("--semantics", settings->semantics,
                 "run sends and receives as asynchronous, buffered, blocking or batched transfers, or as all of them");
  sub.add_flag("--list", settings->list, "list the families and their options");
  sub.add_option("-o", settings->output, "write to this file instead of standard output");
  run = [settings] { return show_schedule(*settings); };
}

}  // namespace panpipe::cli
