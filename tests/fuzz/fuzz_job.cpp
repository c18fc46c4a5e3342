// Any bytes behind a trainer's name are a job of that trainer or an InputError; the scenario made from it is YAML, and is read.
#include "base/input/yaml_document.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "jobs/import.hpp"
#include "jobs/trainer_jobs.hpp"
#include "tests/fuzz/fuzz_input.hpp"

namespace {

panpipe::jobs::ImportedJob import(const std::string& trainer, const std::string& text) {
  using namespace panpipe::jobs;
  JobOptions options;
  if (trainer == "deepspeed" || trainer == "accelerate")
    options = {.model = "config.json", .sequence = 64};  // which hold no model
  for (const TrainerJobs& row : trainer_jobs())
    if (row.name == trainer && row.importer.read != nullptr) return row.importer.read(text, "job", options);
  return trainer_jobs().front().importer.read(text, "job", options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  std::string text = fuzz::text_of(data, size);
  const std::string trainer = fuzz::take_piece(text, '\n');
  std::string written;
  if (!fuzz::accepts([&] { written = jobs::scenario_text(import(trainer, text)); })) return 0;
  parse_document(written, "job.yaml", "");  // what is written must be YAML
  fuzz::accepts([&] { parse_scenario(written, "job.yaml", ""); });
  return 0;
}
