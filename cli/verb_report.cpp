// panpipe report: one page of a step, predicted or measured, or of two over each other.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "study/report/editable_page.hpp"
#include "study/report/report.hpp"

namespace panpipe::cli {

void add_report_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings {
    std::vector<std::string> results;
    std::string output;
    bool editable = false;
  };
  auto settings = std::make_shared<Settings>();
  add_typed(sub, "RESULT", settings->results, "one or two results: result.json, or a folder written with -o", "FILE|DIR")
      ->required();
  add_typed(sub, "-o", settings->output, "page to write", "FILE.html")->required();
  sub.add_flag("--editable", settings->editable,
               "the page that predicts (make web), with this result inside: its plan can be changed there");
  run = [settings] {
    if (settings->editable) {
      if (settings->results.size() != 1) throw InputError("panpipe report --editable: give one result");
      write_file(settings->output, study::with_result(study::predicting_page(), settings->results.front()), kAdvice);
      print_note(fmt::format("written to {}: open it in a browser, change the plan\n", settings->output));
      return static_cast<int>(ExitCode::Done);
    }
    if (settings->results.size() > 2) throw InputError("panpipe report: give one result, or two to lay over each other");
    std::vector<study::ReportInput> inputs;
    for (const std::string& path : settings->results) inputs.push_back(study::read_report_input(path));
    write_file(settings->output, to_report_page(inputs), kAdvice);
    print_note(fmt::format("written to {}: open it in a browser\n", settings->output));
    return static_cast<int>(ExitCode::Done);
  };
}

}  // namespace panpipe::cli
