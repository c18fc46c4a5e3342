// The training framework of a job: a preset, and further choices visible in the job.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "jobs/job.hpp"

namespace panpipe::jobs {

class FrameworkChoices {
 public:
  // `origin` gives the reason for the preset.
  FrameworkChoices(const std::string& preset, std::string origin)
      : choices_{fmt::format("name: {}", preset)}, origins_{std::move(origin)} {}

  // `choice` is "attention: flash-2"; `origin` is the argument or key that shows it.
  void choose(std::string choice, std::string origin) {
    choices_.push_back(std::move(choice));
    origins_.push_back(std::move(origin));
  }
  void put(ImportedJob& job) const {
    job.set("framework", fmt::format("{{{}}}", fmt::join(choices_, ", ")), fmt::format("{}", fmt::join(origins_, ", ")));
  }

 private:
  std::vector<std::string> choices_, origins_;
};

}  // namespace panpipe::jobs
