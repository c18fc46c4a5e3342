// `batch:`, the samples of a step.
#include <fmt/format.h>

#include <iterator>

#include "base/error.hpp"
#include "base/input/declare.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

// The names of other trainers.
constexpr NamePair kOtherNames[] = {{"micro_batch_size", "micro"},        {"microbatch_size", "micro"},
                                    {"global_batch_size", "global"},      {"train_batch_size", "global"},
                                    {"num_microbatches", "microbatches"}, {"gradient_accumulation_steps", "microbatches"}};

}  // namespace

Key batch_key() {
  return declare(
      "batch", "the samples of a step",
      Inside{declare("micro", "samples of a microbatch", form::whole(1), Words{"auto"}, kRequired),
             declare("microbatches", "per step of one replica; or `global`", form::whole(1)),
             declare("global",
                     "samples of a step over all replicas, instead of `microbatches` = global / (micro x data), which must be "
                     "whole. It stays when `parallel.data` or `batch.micro` change, also in a sweep",
                     form::whole(1), Otherwise{"micro x microbatches x data"}, Example{"64"}),
             lengths_key(),
             declare("order",
                     "of the microbatches of unequal length: as listed, or the one with the shortest step that a search finds",
                     Words{"given", "searched"}, Fallback{"given"}, Page{"unequal-microbatches.md"}, InExports::Reported),
             packed_key()},
      kRequired, InExports::Stated);
}

std::vector<NamePair> other_batch_names() { return {std::begin(kOtherNames), std::end(kOtherNames)}; }

std::optional<int> read_batch(MapReader& reader, Scenario& scenario) {
  const Node* node = reader.require("batch");
  if (node == nullptr) return std::nullopt;
  MapReader batch(*node, reader.log());
  if (!read_auto(batch, "micro", "1")) scenario.degrees.micro = batch.integer("micro", 1);
  const Node* counted = batch.find("microbatches");
  std::optional<int> global;
  if (const Node* stated = batch.find("global")) {
    global = read_integer(*stated, reader.log(), 1);
    if (counted != nullptr)
      reader.log().error(*stated, fmt::format("batch.global and batch.microbatches ({}) exclude each other", origin_of(*counted)),
                         "keep one of the two: microbatches = global / (micro x data)", code::kConflict);
  } else if (counted == nullptr && batch.has("lengths")) {
    scenario.degrees.microbatches = 0;  // as many as are listed
  } else {
    scenario.degrees.microbatches = batch.integer("microbatches", 1);
  }
  scenario.samples = read_packed(batch);
  batch.find("lengths");  // once the degrees are known
  batch.choice<int>("order", {{"given", 0}, {"searched", 1}}, 0);
  suggest_names(batch, kOtherNames);
  batch.finish();
  return global;
}

void divide_batch(MapReader& reader, int global, Scenario& scenario) {
  const int data = scenario.degrees.data;
  const long long together = static_cast<long long>(scenario.degrees.micro) * data;
  if (const long long below = global / together * together; below != global) {
    const std::string nearest = below > 0 ? fmt::format("the nearest that fit are {} and {}", below, below + together)
                                          : fmt::format("the least that fits is {}", together);
    reader.log().error(*reader.node().find("batch")->find("global"),
                       fmt::format("a global batch of {} is no multiple of {} (micro {} x data {})", global, together,
                                   scenario.degrees.micro, data),
                       "microbatches = global / (micro x data); " + nearest);
    return;
  }
  scenario.degrees.microbatches = static_cast<int>(global / together);
  reader.log().resolved("batch.microbatches", std::to_string(scenario.degrees.microbatches),
                        fmt::format("derived: global {} / (micro {} x data {})", global, scenario.degrees.micro, data));
}

}  // namespace panpipe
