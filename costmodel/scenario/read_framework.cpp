// `framework:`, the preset that prices a step, and the year of its software.
#include "base/error.hpp"
#include "costmodel/scenario/default_framework.hpp"
#include "costmodel/scenario/read_parts.hpp"
#include "costmodel/scenario/trainer.hpp"

namespace panpipe {
namespace {

// The preset of a scenario that names none: its trainer's, else the one for its kind of model.
DefaultFramework framework_without_name(const WorkloadRequest& workload, const Trainer* trainer) {
  if (trainer == nullptr) return default_framework(workload);
  return {trainer->framework, "trainer " + trainer->name};
}

Framework stated_framework(const Node* node, const std::string& fallback, ReadLog& log) {
  if (node == nullptr) return load_framework(fallback, "");
  if (node->kind == NodeKind::Map) return read_framework_choices(*node, fallback, log);
  const auto name = read_string(*node, log);
  return name ? load_framework(*name, node->source->directory) : Framework();
}

// The year of the libraries where the scenario does not state it: of a stated release, else of a preset that somebody named. A
// trainer without a release is the newest; a preset that nobody named has no date.
int software_of(const Framework& framework, const Node* node, const Trainer* trainer) {
  const bool named = node != nullptr && (node->kind != NodeKind::Map || node->find("name") != nullptr);
  const bool dated = trainer != nullptr && trainer_file(trainer->name)->find("software") != nullptr;
  if (dated && (!named || !trainer->release.empty())) return trainer->software;
  if (trainer != nullptr) return framework.software;
  return named ? framework.software : 0;
}

}  // namespace

Framework read_framework(MapReader& reader, const WorkloadRequest& workload, const Trainer* trainer, bool given_cluster) {
  const Node* node = reader.find("framework");
  // Devices written in place have no kernels that a framework could launch.
  if (node == nullptr && given_cluster) return {};
  const DefaultFramework fallback = framework_without_name(workload, trainer);
  if (node == nullptr) reader.log().resolved("framework", fallback.name, fallback.origin);
  try {
    Framework framework = stated_framework(node, fallback.name, reader.log());
    const bool stated = node != nullptr && node->kind == NodeKind::Map && node->find("software") != nullptr;
    if (!stated) framework.software = software_of(framework, node, trainer);
    return framework;
  } catch (const InputError& error) {
    if (node != nullptr)
      reader.log().add_at(*node, error);
    else
      reader.log().add(error);
    return {};
  }
}

}  // namespace panpipe
