#include "jobs/stated_options.hpp"

namespace panpipe::jobs {

std::span<const StatedOption> stated_options() {
  using O = JobOptions;
  static constexpr StatedOption kRows[] = {
      {"cluster", &O::cluster, nullptr, 0, "FILE", "cluster file of the job (default: nodes of eight H100)"},
      {"model", &O::model, nullptr, 0, "CONFIG", "the model's config.json, where the job does not state it"},
      {"gpus", nullptr, &O::gpus, 1 << 16, "N", "GPUs of the job, where it does not state them"},
      {"sequence", nullptr, &O::sequence, 1 << 24, "N", "tokens of a sample, where the job does not state them"},
      {"micro", nullptr, &O::micro, 1 << 20, "N", "samples of a microbatch, where they are open"},
      {"vocabulary", nullptr, &O::vocabulary, 1 << 24, "N", "tokens of the tokenizer, where the job does not state them"}};
  return kRows;
}

std::vector<std::pair<std::string, std::string>> stated_values(const JobOptions& options) {
  std::vector<std::pair<std::string, std::string>> stated;
  for (const StatedOption& row : stated_options())
    if (row.text != nullptr && !(options.*row.text).empty())
      stated.emplace_back(row.name, options.*row.text);
    else if (row.number != nullptr && options.*row.number)
      stated.emplace_back(row.name, std::to_string(*(options.*row.number)));
  return stated;
}

}  // namespace panpipe::jobs
