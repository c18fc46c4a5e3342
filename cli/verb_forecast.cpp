// panpipe forecast: when a run under way will end, from its log.
#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>

#include "app/forecast.hpp"
#include "base/option_fault.hpp"
#include "cli/import_jobs.hpp"
#include "cli/import_log.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {

void add_forecast_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings : app::ForecastRequest {
    std::vector<std::string> evidence;
    bool json = false;
  };
  auto settings = std::make_shared<Settings>();
  sub.add_option("LOG", settings->log.file, "what the trainer printed; - for standard input")->required();
  add_job_of_log(sub, settings->log, "--scenario");
  add_number(sub, "--steps", settings->steps,
             "steps of the whole run (default: as the log states them, else `run` of the scenario)", 1LL, 1LL << 40);
  add_repeatable(sub, "--evidence", settings->evidence, "what else was measured of this machine, with --scenario (repeatable)",
                 "FILE");
  sub.add_flag("--json", settings->json, "print the document panpipe-forecast/1");
  run = [settings] {
    if (!settings->evidence.empty() && settings->log.scenario.empty())
      throw option_fault("evidence", "evidence belongs to a scenario", "--scenario S names it");
    refer_from(settings->log.output, settings->log.job);
    add_evidence(settings->evidence, settings->log.overrides);
    const app::Forecast forecast = app::forecast(*settings);
    const auto now = static_cast<double>(std::time(nullptr));
    settings->json ? print(to_json(forecast, now)) : show(to_text(forecast, now, style_of_output()));
    return 0;
  };
}

}  // namespace panpipe::cli
