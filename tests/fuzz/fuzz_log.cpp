// Any bytes are a training log or an InputError; its times are finite, and the job that it states is a scenario or an InputError.
#include <algorithm>
#include <cstring>

#include "base/input/yaml_document.hpp"
#include "jobs/log/read_log.hpp"
#include "tests/fuzz/fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  std::size_t at = 0;
  const auto source = [&](char* buffer, std::size_t most) {
    const std::size_t count = std::min(most, size - at);
    if (count > 0) std::memcpy(buffer, data + at, count);
    at += count;
    return count;
  };
  jobs::TrainingLog log;
  if (!fuzz::accepts([&] { log = jobs::read_training_log(source, "log"); })) return 0;
  const jobs::SteadyState& steady = log.run.measured;
  for (const double value : {steady.median_s, steady.p10_s, steady.p90_s, steady.drift.value_or(0), log.run.peak_bytes})
    fuzz::must_be_finite(value);
  if (!(steady.p10_s <= steady.median_s && steady.median_s <= steady.p90_s && steady.p10_s > 0)) std::abort();
  std::string written;
  if (fuzz::accepts([&] { written = scenario_text(jobs::import_stated_job(log, {.model = "config.json", .sequence = 64})); }))
    parse_document(written, "job.yaml", "");  // what is written must be YAML
  return 0;
}
