#include "cli/selftest/selftest.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/files/standard_output.hpp"
#include "base/text/terminal.hpp"
#include "base/version.hpp"
#include "cli/output.hpp"
#include "cli/selftest/selftest_report.hpp"
#include "cli/selftest/steps.hpp"
#include "cli/stop_on_signal.hpp"
#include "costmodel/prediction/experiment.hpp"

namespace panpipe::cli {
namespace {

constexpr const char* kAdviceOfReport = "choose another folder with -o";
constexpr const char *kDocument = "panpipe-selftest.json", *kPage = "panpipe-selftest.md", *kRuns = "panpipe-selftest.csv";
constexpr int kNameWidth = 10;  // of the longest step, "transports"

// Lines as the steps go: on standard output, or on standard error where a document goes to standard output.
class Reporter {
 public:
  explicit Reporter(bool to_stderr) : stream_(to_stderr ? stderr : stdout), width_(to_stderr ? 0 : terminal_width()) {}
  void write(const std::string& text) const {
    std::fputs(text.c_str(), stream_);
    std::fflush(stream_);
  }
  void starts(const char* name) const { write(fmt::format("  {:<{}} ", name, kNameWidth)); }
  void report(const StepReport& report) const {
    // The text of starts() is part of the line to wrap, and is not printed again.
    const std::string head = fmt::format("  {:<{}} ", report.name, kNameWidth);
    write(wrapped(head + report.text + "\n", width_, kNameWidth + 3).substr(head.size()));
    for (const Trouble& trouble : report.troubles) {
      write(wrapped(fmt::format("  {:<{}} {}: {}\n", "", kNameWidth, trouble.wrong ? "WRONG" : "note", trouble.what), width_,
                    kNameWidth + 5));
      write(wrapped(fmt::format("  {:<{}} remedy: {}\n", "", kNameWidth, trouble.remedy), width_, kNameWidth + 5));
    }
  }

 private:
  std::FILE* stream_;
  int width_;
};

struct Step {
  const char* name;
  StepReport (*take)(Trial&);
  bool only_gpus = false;
};
constexpr Step kSteps[] = {{"machine", [](Trial& trial) { return look_at_parts(trial); }},
                           {"transports", try_transports},
                           {"equality", try_equality},
                           {"links", measure_links},
                           {"prediction", predict_and_run},
                           {"GPUs", look_at_gpus, true}};

}  // namespace

int selftest(const SelftestRequest& request) {
  check_outputs(request.folder, {kDocument, kPage, kRuns}, kAdviceOfReport);
  const StopOnSignal signals;
  const Reporter reporter(request.json);
  std::vector<StepReport> steps;
  std::optional<validation::RunRow> row;
  std::string device;
  try {
    Trial trial(request);
    device = trial.device;
    reporter.write(
        fmt::format("panpipe {} tries {}\n", kVersion, trial.on_gpus() ? "the GPUs of this machine" : "this machine's CPU"));
    for (const Step& step : kSteps) {
      if (step.only_gpus && !trial.on_gpus()) continue;
      reporter.starts(step.name);
      steps.push_back(step.take(trial));
      steps.back().name = step.name;
      reporter.report(steps.back());
    }
    row = trial.row;
  } catch (const Interrupted& stop) {
    reporter.write("\n");
    print_note(fmt::format("panpipe: {}: no report was written\n", stop.what()));
    return 128 + SIGINT;
  }
  nlohmann::ordered_json document = report_document(steps, device);
  PrivateWords().remove_from(document);
  const auto write = [&](const char* name, const std::string& text) {
    write_file((std::filesystem::path(request.folder) / name).string(), text, kAdviceOfReport);
  };
  make_folder(request.folder, kAdviceOfReport);
  write(kDocument, document.dump(2) + "\n");
  write(kPage, report_page(document));
  if (row) write(kRuns, validation::run_csv(*row));
  const bool right = document["right"];
  reporter.write(fmt::format("verdict: {}\nwritten to {}: {}, {}{}; nothing in them names you or this machine\n",
                             verdict_of(steps), request.folder, kDocument, kPage,
                             row ? std::string(", ") + kRuns : std::string()));
  if (request.json) print(document.dump(2) + "\n");
  return static_cast<int>(right ? ExitCode::Done : ExitCode::CheckFailed);
}

}  // namespace panpipe::cli
