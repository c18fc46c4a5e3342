#include "app/log_and_job.hpp"

#include <fmt/format.h>

#include "costmodel/prediction/given_evidence.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "costmodel/workload/language_model.hpp"

namespace panpipe::app {

jobs::JobSize job_size(const Scenario& scenario, const Plan& plan) {
  const auto model = language_model_of(scenario.workload);
  return {static_cast<int>(plan.devices.size()), static_cast<long long>(plan.micro) * plan.schedule.microbatches * plan.data,
          model ? model->dimensions.sequence : 0};
}

std::string other_job(const jobs::TrainingLog& log, const Scenario& scenario, const Plan& plan) {
  const jobs::JobSize size = job_size(scenario, plan);
  const jobs::StatedJob& stated = log.run.job;
  const auto other = [](long long here, long long there, const char* what) {
    return here > 0 && there > 0 && here != there ? fmt::format("it states {} {}, and this scenario has {}", here, what, there)
                                                  : std::string();
  };
  std::string why = other(stated.gpus, size.gpus, "GPUs");
  if (why.empty()) why = other(log.run.samples > 0 ? log.run.samples : stated.batch, size.batch, "samples a step");
  if (why.empty()) why = other(stated.sequence, size.sequence, "tokens a sample");
  return why;
}

std::string other_trainer(const jobs::TrainingLog& log, const Scenario& scenario) {
  const Trainer trainer = load_trainer(log.trainer);
  const std::string& framework = scenario.framework.name;
  if (trainer_family(trainer.framework) == trainer_family(framework)) return "";
  // A framework that is stated stands over the trainer's.
  const bool stated = scenario.document && scenario.document->find("framework") != nullptr;
  return fmt::format("{} wrote it, and this scenario is predicted as {}; '{}' in {} predicts it as that", log.title, framework,
                     stated ? fmt::format("framework: {{name: {}}}", trainer.framework) : "trainer: " + log.trainer,
                     scenario.file.empty() ? "the scenario" : scenario.file);
}

}  // namespace panpipe::app
