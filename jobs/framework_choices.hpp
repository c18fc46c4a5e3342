// The trainer of a job, and the choices visible in the job that its framework's preset does not make.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "costmodel/scenario/trainer.hpp"
#include "jobs/job.hpp"

namespace panpipe::jobs {

class FrameworkChoices {
 public:
  // `origin` gives the reason for the trainer. `preset` names a framework that is not the trainer's own. `release`: of the
  // trainer; empty: the newest.
  FrameworkChoices(std::string trainer, std::string origin, const std::string& preset = "", std::string release = "")
      : trainer_(std::move(trainer)), release_(std::move(release)), origin_(std::move(origin)) {
    if (!preset.empty() && preset != load_trainer(trainer_, release_).framework) choose("name: " + preset, origin_);
  }

  const std::string& trainer() const { return trainer_; }

  // `choice` is "attention: flash-2"; `origin` is the argument or key that shows it.
  void choose(std::string choice, std::string origin) {
    choices_.push_back(std::move(choice));
    origins_.push_back(std::move(origin));
  }
  void put(ImportedJob& job) const {
    job.set("trainer", release_.empty() ? trainer_ : fmt::format("{{name: {}, release: {}}}", trainer_, release_), origin_);
    if (!choices_.empty())
      job.set("framework", fmt::format("{{{}}}", fmt::join(choices_, ", ")), fmt::format("{}", fmt::join(origins_, ", ")));
  }

 private:
  std::string trainer_, release_, origin_;
  std::vector<std::string> choices_, origins_;
};

}  // namespace panpipe::jobs
