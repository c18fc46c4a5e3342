// Any bytes behind a trainer's name are a job of that trainer or an InputError; the scenario made from it is YAML, and is read.
#include "base/input/yaml_document.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "jobs/accelerate_import.hpp"
#include "jobs/deepspeed_import.hpp"
#include "jobs/megatron_import.hpp"
#include "jobs/nanotron_import.hpp"
#include "jobs/torchtitan_import.hpp"
#include "tests/fuzz/fuzz_input.hpp"

namespace {

panpipe::jobs::ImportedJob import(const std::string& trainer, const std::string& text) {
  using namespace panpipe::jobs;
  const JobOptions options{.model = "config.json", .sequence = 64};
  if (trainer == "deepspeed") return import_deepspeed(text, "job", options);
  if (trainer == "accelerate") return import_accelerate(text, "job", options);
  if (trainer == "nanotron") return import_nanotron(text, "job", {});
  if (trainer == "torchtitan") return import_torchtitan(text, "job", {}, {});
  return import_megatron(text, "job", {});
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
