// What `panpipe forecast` answers: when a run that is under way will end, what it will have cost, and whether it runs as it
// should.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/import_log.hpp"
#include "costmodel/prediction/uncertainty.hpp"
#include "costmodel/run_cost/run_cost.hpp"

namespace panpipe::app {

struct ForecastRequest {
  LogRequest log;
  long long steps = 0;  // of the whole run; 0: as the log or the scenario's `run` states
};

struct Forecast {
  LogAnswer log;
  long long steps = 0, steps_left = 0;
  std::string steps_origin;  // "the log", "the scenario", "--steps"
  Quantiles step_s;          // the mean of the steps that are left
  Quantiles left_s;          // until the last step; with checkpoints and failures where the scenario states them
  // Where the job is known: a step of such a job before this log; and another run of it after the log, unless that is left out as
  // evidence would be.
  std::optional<Quantiles> before_s, after_s;
  std::optional<RunCost> run;  // of the whole run at the step's p50, where the scenario has `run`; of `steps`
  std::optional<Quantiles> cost_left;
  std::vector<std::string> notes;
  std::vector<std::string> alarms;  // the run drifts, or is outside of what is expected
};

// Throws what import_log does, and InputError if the number of steps is not known.
Forecast forecast(const ForecastRequest& request);

// `now`: seconds since 1970, for the date of the end.
std::string to_text(const Forecast& forecast, double now, const TextStyle& style);
std::string to_json(const Forecast& forecast, double now);  // panpipe-forecast/1

}  // namespace panpipe::app
