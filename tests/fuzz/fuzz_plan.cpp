// Any bytes are a plan of a small scenario or a refusal; a plan writes itself down as one that reads the same, and has a finite
// step.
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "tests/fuzz/fuzz_input.hpp"

namespace {

using namespace panpipe;

const char* const kScenario =
    "panpipe: 1\n"
    "cluster: {devices: 2, memory: 4 GiB, link: {latency: 60 us, bandwidth: 2 GB/s}}\n"
    "workload: {layers: LAYERS}\n"
    "batch: {micro: 1, microbatches: 4}\n"
    "parallel: {pipeline: 2}\n"
    "schedule: 1f1b\n";
const char* const kLayers =
    "panpipe: 1\n"
    "kind: layers\n"
    "layers:\n"
    "- {name: a, forward: 1 ms, backward: 2 ms, parameters: 1 MB, saved: 1 MB}\n"
    "- {name: b, forward: 1 ms, backward: 2 ms, parameters: 1 MB, saved: 1 MB}\n"
    "- {name: c, forward: 1 ms, backward: 2 ms, parameters: 1 MB, saved: 1 MB}\n"
    "edges:\n"
    "- {from: a, to: b, bytes: 1 kB}\n"
    "- {from: b, to: c, bytes: 1 kB}\n";

Scenario scenario() {
  static const fuzz::MemoryFile layers(kLayers);
  std::string text = kScenario;
  text.replace(text.find("LAYERS"), 6, layers.path());
  return parse_scenario(text, "fuzz.yaml", "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Experiment experiment(scenario());
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  Plan plan;
  if (!fuzz::accepts([&] { plan = experiment.plan(file.path()); })) return 0;
  const std::string written = to_yaml(plan, experiment.model.units(0));
  const fuzz::MemoryFile copy(written);
  if (to_yaml(experiment.plan(copy.path()), experiment.model.units(0)) != written) std::abort();
  fuzz::accepts([&] {
    const Metrics found = metrics(estimate(lower(experiment.scenario, plan, experiment.model)));
    fuzz::must_be_finite(found.step_time_s);
    fuzz::must_be_finite(found.peak_memory_bytes);
  });
  return 0;
}
