// Warnings about misleading contents of Piper's input files; docs/models/piper.md lists them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text/quantity_text.hpp"
#include "planner/piper/piper_file.hpp"

namespace panpipe::planner::piper {
namespace {

// Seconds of one microbatch on one device beyond which a time looks like milliseconds: profiled models take 0.1 to a few seconds.
constexpr double kLongMicrobatch = 20;

std::string whole_bytes(double bytes) { return fmt::format("{:.0f} B", bytes); }

const LayerProfile* first_plain(const PiperNode& node) {
  for (const LayerProfile& profile : node.profiles)
    if (!profile.recompute) return &profile;
  return node.profiles.empty() ? nullptr : &node.profiles.front();
}

void warn_of_milliseconds(PiperFile& file) {
  double total = 0;
  for (const PiperNode& node : file.nodes)
    if (const LayerProfile* profile = first_plain(node)) total += profile->time.base();
  if (total < kLongMicrobatch) return;
  file.warnings.push_back(warning_at(
      *file.nodes.front().at,
      fmt::format("timePerSample sums to {:.4g} s for one microbatch: these look like milliseconds", total),
      "the times are taken as they are, and transfers (bytes / bandwidth, in seconds) weigh 1000 times too little beside them"));
}

void warn_of_bytes_named_time(PiperFile& file) {
  for (const PiperNode& node : file.nodes)
    for (const LayerProfile& profile : node.profiles)
      if (!profile.receive.empty() || !profile.send.empty()) {
        file.warnings.push_back(warning_at(*node.at, "syncTimeFw and syncTimeBw are bytes despite their names",
                                           "extra bytes of an edge that crosses into a stage, by the node that feeds this one; "
                                           "and out of it, by the node that this one feeds"));
        return;
      }
}

// A producer that sends x to one node and y to another, where the other also receives x from somebody else.
void warn_of_swapped_edges(PiperFile& file) {
  std::map<int, std::vector<const PiperFile::Edge*>> out_of, into;
  for (const PiperFile::Edge& edge : file.edges) {
    out_of[edge.from].push_back(&edge);
    into[edge.to].push_back(&edge);
  }
  const PiperFile::Edge *first = nullptr, *right = nullptr, *other = nullptr;
  int count = 0;
  for (const auto& [producer, edges] : out_of)
    for (const PiperFile::Edge* edge : edges) {
      if (edge->bytes == edges.front()->bytes) continue;
      const auto& of_target = into[edge->to];
      const auto match = std::find_if(of_target.begin(), of_target.end(), [&, f = edges.front()](const PiperFile::Edge* e) {
        return e->from != edge->from && e->bytes == f->bytes && e->bytes > 0;
      });
      if (match == of_target.end()) continue;
      if (++count > 1) continue;
      first = edge;
      right = edges.front();
      other = *match;
    }
  if (count == 0) return;
  const auto name = [&](int node) { return file.nodes[node].name; };
  file.warnings.push_back(warning_at(
      *first->at,
      fmt::format("'{}' sends {} to '{}' but {} to '{}', which receives {} from '{}': the two look swapped ({} such edge{})",
                  name(first->from), whole_bytes(right->bytes), name(right->to), whole_bytes(first->bytes), name(first->to),
                  whole_bytes(other->bytes), name(other->from), count, count == 1 ? "" : "s"),
      "the edges are taken as they are"));
}

void warn_of_fan_out(PiperFile& file) {
  std::map<int, int> consumers;
  for (const PiperFile::Edge& edge : file.edges)
    if (edge.bytes > 0) ++consumers[edge.from];
  const auto most =
      std::max_element(consumers.begin(), consumers.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == consumers.end() || most->second < 2) return;
  file.warnings.push_back(
      warning_at(*file.nodes[most->first].at,
                 fmt::format("the tensor of '{}' is charged once for each of its {} consumers, also where they share a stage",
                             file.nodes[most->first].name, most->second),
                 "Piper's objective counts edges, not tensors"));
}

void warn_of_optimizer(PiperFile& file) {
  double fixed = 0, parameters = 0;
  const PiperNode* largest = nullptr;
  double most = 0;
  for (const PiperNode& node : file.nodes) {
    const LayerProfile* profile = first_plain(node);
    if (!profile) continue;
    fixed += profile->fixed;
    parameters += profile->parameters;
    if (profile->parameters > most) {
      most = profile->parameters;
      largest = &node;
    }
  }
  if (!largest || fixed >= 3 * parameters) return;
  file.warnings.push_back(warning_at(
      *largest->at,
      fmt::format("memoryUsageB is {:.3g} times parameterSize in all: weights and gradients, but no optimizer state",
                  fixed / parameters),
      "a plan may not fit where Adam adds twice the parameters; --objective step counts the state of the scenario's optimizer"));
}

}  // namespace

void warn_of_traps(PiperFile& file) {
  warn_of_milliseconds(file);
  warn_of_bytes_named_time(file);
  warn_of_swapped_edges(file);
  warn_of_fan_out(file);
  warn_of_optimizer(file);
}

}  // namespace panpipe::planner::piper
