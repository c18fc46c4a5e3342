// Reads `offload:`.
#include <fmt/format.h>

#include <algorithm>

#include "base/input/bound_key.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

const std::vector<BoundKey<HostedState>>& offload_rows() {
  static const Choices<bool> places = {{"cpu", true}, {"none", false}, {"auto", false}};  // a search decides what is open
  static const Choices<bool> states = {{"cpu", true}, {"stream", true}, {"none", false}, {"auto", false}};
  static const Choices<bool> fixed = {{"cpu", true}, {"none", false}};
  const char* page = "models/memory-terms.md#memory-of-the-host";
  static const std::vector<BoundKey<HostedState>> rows = {
      bound(&HostedState::optimizer, states, "optimizer",
            "`cpu`: moments and masters lie in the host's memory, which updates them; `stream`: they pass through the devices, "
            "which update them; `auto`: `plan` decides",
            Page{page}),
      BoundKey<HostedState>{declare("streamed_states", "with `optimizer: stream`: what lies in the host's memory",
                                    items(Words{"first_moment", "second_moment", "master"}), Otherwise{"all"}, Page{page})},
      bound(&HostedState::gradients, fixed, "gradients",
            "`cpu`: sums over microbatches lie in the host's memory, and each backward adds to them", Page{page}),
      bound(&HostedState::parameters, places, "parameters",
            "`cpu`: so do the weights: under ZeRO 3 their shards, without replicas what comes for the turn of a stage; `auto`: "
            "`plan` decides"),
      BoundKey<HostedState>{declare(
          "blocks",
          "first blocks of the model whose kept activations go to the host's memory while other blocks run, and come back",
          form::whole(0), Words{"all"}, Otherwise{"0"}, Page{page}, Example{"8"})},
      bound(&HostedState::block_inputs, fixed, "block_inputs", "`cpu`: so do the inputs of every block alone", Page{page}),
      BoundKey<HostedState>{declare("activations", "as `schedule.offload`, of any schedule; `auto`: `plan` decides",
                                    Words{"none", "selective", "full", "auto"}, Fallback{"none"}, Page{"models/transfers.md"})}};
  return rows;
}

// `auto` is a search's.
void read_offloaded_activations(MapReader& offload, ScheduleOptions& options) {
  const Node* node = offload.find("activations");
  if (node == nullptr) return;
  const std::string value = offload.choice<std::string>(
      "activations", {{"none", "none"}, {"selective", "selective"}, {"full", "full"}, {"auto", "auto"}});
  if (value == "auto" || value == "none") return;
  if (options.count("offload") > 0)
    offload.log().error(*node, "schedule.offload states the same", "keep one of the two", code::kConflict);
  options["offload"] = value;
}

// A number of blocks, or all.
void read_streamed_blocks(MapReader& offload, HostedState& hosted) {
  const Node* node = offload.find("blocks");
  if (node == nullptr) return;
  hosted.blocks = node->text == "all" ? HostedState::kAllBlocks : offload.integer("blocks", 0, 0);
}

void read_streamed_states(MapReader& offload, HostedState& hosted) {
  const Node* optimizer = offload.find("optimizer");
  hosted.streams = optimizer != nullptr && optimizer->text == "stream";
  const Node* list = offload.find("streamed_states");
  if (list == nullptr) return;
  if (!hosted.streams)
    offload.log().error(*list, "states stream where the devices update what lies in the host's memory",
                        "state 'optimizer: stream', or leave streamed_states out");
  hosted.first_moment = hosted.second_moment = hosted.master = false;
  const std::pair<std::string_view, bool*> states[] = {
      {"first_moment", &hosted.first_moment}, {"second_moment", &hosted.second_moment}, {"master", &hosted.master}};
  if (list->kind != NodeKind::Sequence || list->items.empty())
    offload.log().error(*list, "expected a list of states", "as in 'streamed_states: [first_moment, second_moment]'");
  for (const NodePtr& item : list->items) {
    const auto word = read_string(*item, offload.log());
    const auto found = std::find_if(std::begin(states), std::end(states), [&](const auto& state) { return word == state.first; });
    if (found != std::end(states))
      *found->second = true;
    else if (word)
      offload.log().error(*item, fmt::format("unknown state '{}'", *word), "one of first_moment, second_moment, master",
                          code::kUnknownName);
  }
}

void check_streams(MapReader& map, const Scenario& scenario) {
  const HostedState& offload = scenario.offload;
  ReadLog& log = map.log();
  const char* key = offload.blocks > 0 ? "blocks" : offload.block_inputs ? "block_inputs" : "gradients";
  if (!offload.streams_activations() && !offload.gradients) return;
  if (!scenario.workload.layers_file.empty())
    log.error(*map.find(key), "measured layers state no blocks", fmt::format("leave offload.{} out", key));
  if (offload.streams_activations() && scenario.recompute_scope.chunk > 1)
    log.error(*map.find(key), "recompute.chunk keeps the input of several blocks together", "leave one of the two out");
  if (offload.gradients && scenario.optimizer.name == "none")
    log.error(*map.find("gradients"), "optimizer 'none' sums no gradients", "leave offload.gradients out");
}

}  // namespace

Key offload_key() {
  return declare("offload", "what lies in the host's memory", Inside{declared(offload_rows())}, Otherwise{"none"},
                 Page{"models/memory-terms.md#memory-of-the-host"}, InExports::Reported);
}

void read_offload(MapReader& reader, Scenario& scenario) {
  HostedState& offload = scenario.offload;
  const Node* node = reader.find("offload");
  if (node == nullptr) return;
  ReadLog& log = reader.log();
  MapReader map(*node, log);
  read_keys(map, offload_rows(), offload);
  read_offloaded_activations(map, scenario.schedule.options);
  read_streamed_blocks(map, offload);
  read_streamed_states(map, offload);
  map.finish();
  check_streams(map, scenario);
  if (offload.optimizer && scenario.optimizer.name == "none")
    log.error(*map.find("optimizer"), "optimizer 'none' keeps nothing that could lie in the host's memory",
              "name an optimizer, or leave offload.optimizer out");
  if (offload.optimizer && !scenario.workload.layers_file.empty())
    log.error(*map.find("optimizer"), "measured layers state the time of their optimizer's step themselves",
              "leave offload.optimizer out");
  if (offload.on_host_step() && of_matrices(scenario.optimizer))
    log.error(*map.find("optimizer"), fmt::format("how long a host takes for a step of {} is not known", scenario.optimizer.name),
              "leave offload.optimizer out, or name adam or adamw");
  const bool replicas = scenario.degrees.exchanges();  // of all parameters, or of experts alone
  if (offload.parameters && scenario.degrees.zero < 3 && replicas)
    log.error(*map.find("parameters"),
              fmt::format("parameters of replicas come from the host as they are gathered, block by block, and zero is {}",
                          scenario.degrees.zero),
              "state 'parallel: {zero: 3}', or leave offload.parameters out");
  else if (offload.parameters && scenario.degrees.zero < 3 && !offload.on_host_step() && scenario.optimizer.name != "none")
    log.error(*map.find("parameters"), "gradients go to the weights in the host's memory, and the optimizer is on the devices",
              "state 'offload: {optimizer: cpu, parameters: cpu}', or leave offload.parameters out");
  else if (offload.parameters && scenario.degrees.zero >= 3 && !replicas)
    log.error(*map.find("parameters"), "parameters come from the host as they are gathered, and data 1 gathers nothing",
              "state parallel.data, or leave offload.parameters out");
}

}  // namespace panpipe
