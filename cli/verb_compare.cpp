// panpipe compare: two results of one plan side by side, and whether they agree.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "present/result/result.hpp"
#include "study/compare/compare.hpp"

namespace panpipe::cli {

void add_compare_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings {
    std::string a, b, trace;
    std::vector<std::string> tolerances;
    bool json = false, metrics_only = false;
  };
  auto options = std::make_shared<Settings>();
  sub.add_option("A", options->a, "result.json, or a folder written with -o")->required();
  sub.add_option("B", options->b, "the result to compare with: result.json, or a folder written with -o")->required();
  add_repeatable(sub, "--tolerance", options->tolerances, "exit 1 when a metric differs by more: step_time_s=3% (repeatable)",
                 "METRIC=LIMIT");
  sub.add_flag("--metrics-only", options->metrics_only,
               "compare metrics alone: for results without a timeline, or from different plans");
  sub.add_flag("--json", options->json, "print a JSON document instead of the tables");
  add_typed(sub, "-o", options->trace, "write both timelines into one Chrome trace, for ui.perfetto.dev", "FILE");
  run = [options] {
    std::vector<study::Tolerance> tolerances;
    for (const std::string& text : options->tolerances) tolerances.push_back(study::parse_tolerance(text));
    const present::ResultDocument a = present::read_result(options->a), b = present::read_result(options->b);
    if (!options->trace.empty()) check_outputs({options->trace}, kAdvice);
    const study::Comparison comparison = compare(a, b, tolerances, options->metrics_only);
    options->json ? print(to_json(comparison)) : show(to_table(comparison));
    if (!options->trace.empty()) {
      write_file(options->trace,
                 present::to_trace_json(
                     {{"A, " + std::string(name_of(a.kind)), &a.timeline}, {"B, " + std::string(name_of(b.kind)), &b.timeline}}) +
                     "\n",
                 kAdvice);
      print_note("written to " + options->trace + ": open it at ui.perfetto.dev\n");
    }
    return static_cast<int>(comparison.ok() ? ExitCode::Done : ExitCode::CheckFailed);
  };
}

}  // namespace panpipe::cli
