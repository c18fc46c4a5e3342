// Whether a training log is of a job: one rule for evidence, forecasts and `panpipe import log`.
#pragma once

#include <string>

#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "jobs/log/read_log.hpp"

namespace panpipe::app {

// What logs may leave open of a job.
jobs::JobSize job_size(const Scenario& scenario, const Plan& plan);

// What the log, or a line of its steps, states and the job has otherwise; empty: nothing.
std::string other_job(const jobs::TrainingLog& log, const Scenario& scenario, const Plan& plan);

// That another family of trainers wrote the log than the scenario is predicted as, with what states it; empty: the same.
std::string other_trainer(const jobs::TrainingLog& log, const Scenario& scenario);

}  // namespace panpipe::app
