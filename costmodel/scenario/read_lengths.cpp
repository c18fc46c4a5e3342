// `batch.lengths`, microbatches of unequal length: docs/unequal-microbatches.md.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/input/declare.hpp"
#include "base/input/source_text.hpp"
#include "costmodel/scenario/dynamic_context.hpp"
#include "costmodel/scenario/read_parts.hpp"
#include "costmodel/workload/assign_contexts.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

constexpr int kMostTokens = 1 << 26;  // of a sequence

// A line of a file of lengths; what stands behind # is a comment. No samples: a line of comments.
SequenceShape shape_of_line(std::string_view line, const std::string& place) {
  SequenceShape shape;
  line = line.substr(0, line.find('#'));
  std::int64_t tokens = 0;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r,");
    if (begin == std::string_view::npos) return shape;
    line.remove_prefix(begin);
    int length = 0;
    const auto [end, fault] = std::from_chars(line.data(), line.data() + line.size(), length);
    const bool whole = end == line.data() + line.size() || std::string_view(" \t\r,").find(*end) != std::string_view::npos;
    if (fault != std::errc() || !whole || length < 1 || (tokens += length) > kMostTokens)
      throw InputError(
          fmt::format("{}: '{}' is no length of a sample in tokens", place, line.substr(0, line.find_first_of(" \t\r,"))),
          "write one microbatch a line: the length of its samples, or the lengths of those packed into its sequence");
    shape.samples.push_back(length);
    line.remove_prefix(at(end - line.data()));
  }
}

std::vector<SequenceShape> shapes_of_file(const std::string& file) {
  std::vector<SequenceShape> shapes;
  const std::string text = read_text_file(file);
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    SequenceShape shape = shape_of_line(std::string_view(text).substr(begin, end - begin), fmt::format("{}:{}", file, ++number));
    if (!shape.samples.empty()) shapes.push_back(std::move(shape));
    begin = end + 1;
  }
  if (shapes.empty()) throw InputError(fmt::format("{}: no lengths", file), "", code::kEmpty);
  return shapes;
}

std::vector<SequenceShape> shapes_of_list(const Node& list, ReadLog& log) {
  std::vector<SequenceShape> shapes;
  for (const NodePtr& item : list.items) {
    SequenceShape& shape = shapes.emplace_back();
    const bool packed = item->kind == NodeKind::Sequence && !item->items.empty();
    std::int64_t tokens = 0;
    for (const NodePtr& sample : packed ? item->items : std::vector{item})
      if (const auto length = read_integer(*sample, log, 1)) tokens += shape.samples.emplace_back(*length);
    if (tokens > kMostTokens) log.error(*item, fmt::format("a sequence of {} tokens: at most {} are taken", tokens, kMostTokens));
  }
  return shapes;
}

// How many of a number have each length, by largest remainders.
std::vector<int> counts_of_shares(const SampleLengths& shares, int number) {
  std::vector<int> count(shares.lengths.size());
  std::vector<std::size_t> order;
  int left = number;
  const auto exact = [&](std::size_t k) { return shares.shares[k] * number; };
  for (std::size_t k = 0; k < count.size(); ++k) {
    count[k] = static_cast<int>(exact(k));
    left -= count[k];
    order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return exact(a) - count[a] > exact(b) - count[b]; });
  for (int k = 0; k < left; ++k) ++count[order[at(k) % order.size()]];
  return count;
}

// So many microbatches of a distribution, each length as evenly spread as their numbers allow.
std::vector<SequenceShape> shapes_of_shares(const SampleLengths& shares, int microbatches) {
  const std::vector<int> count = counts_of_shares(shares, microbatches);
  std::vector<int> placed(count.size());
  std::vector<SequenceShape> shapes;
  for (int i = 1; i <= microbatches; ++i) {
    const auto behind = [&](std::size_t k) { return static_cast<double>(i) * count[k] / microbatches - placed[k]; };
    std::size_t next = 0;
    for (std::size_t k = 1; k < count.size(); ++k)
      if (behind(k) > behind(next)) next = k;
    ++placed[next];
    shapes.push_back({{static_cast<int>(shares.lengths[next])}});
  }
  return shapes;
}

std::vector<SequenceShape> shapes_of_reference(const Node& node, ReadLog& log) {
  const auto file = read_file_reference(node, log, "file of lengths");
  if (!file) return {};
  try {
    return shapes_of_file(*file);
  } catch (const InputError& error) {
    log.add_at(node, error);
    return {};
  }
}

// The lengths of samples to be packed: a list, a file, or a distribution with their number.
std::vector<int> sample_lengths(const Node& node, ReadLog& log) {
  std::vector<int> lengths;
  if (node.kind == NodeKind::Map) {
    const Node* number = node.find("count");
    const SampleLengths shares = read_shares(node, log, true);
    if (number == nullptr) log.error(node, "shares of samples need their number", "state count", code::kMissingKey);
    const int samples = number == nullptr ? 0 : read_integer(*number, log, 1).value_or(0);
    if (log.has_errors()) return lengths;
    const std::vector<int> count = counts_of_shares(shares, samples);
    for (std::size_t k = 0; k < count.size(); ++k)
      lengths.insert(lengths.end(), at(count[k]), static_cast<int>(shares.lengths[k]));
    return lengths;
  }
  for (const SequenceShape& line : node.kind == NodeKind::Sequence ? shapes_of_list(node, log) : shapes_of_reference(node, log))
    lengths.insert(lengths.end(), line.samples.begin(), line.samples.end());
  return lengths;
}

// The rows of a pool of data x context ranks, each with one microbatch after another; an idle rank has an empty one.
std::vector<SequenceShape> assigned(const Node& node, MapReader& reader, const Node& samples, ReadLog& log, Scenario& scenario) {
  const Degrees& degrees = scenario.degrees;
  for (const char* key : {"tokens", "packing"})
    if (const Node* other = node.find(key); other != nullptr)
      log.error(*other, fmt::format("{} follows where each sample has a context of its own", key), "leave it out",
                code::kConflict);
  reader.finish();
  const auto power_of_two = [](int number) { return (number & (number - 1)) == 0; };
  if (degrees.context < 2 || !power_of_two(degrees.context) || !power_of_two(degrees.data))
    log.error(node,
              fmt::format("a dynamic context divides a pool of ranks by powers of two, and data x context is {} x {}",
                          degrees.data, degrees.context),
              "state parallel.data and parallel.context, the degree of the longest sample, as powers of two");
  if (degrees.micro != 1) log.error(node, "a dynamic context takes samples one by one", "state 'micro: 1'", code::kConflict);
  const std::vector<int> lengths = log.has_errors() ? std::vector<int>{} : sample_lengths(samples, log);
  if (log.has_errors() || lengths.empty()) return {};
  const SequenceWork work = sequence_work(scenario, *std::max_element(lengths.begin(), lengths.end()));
  const ContextSlots made = assign_contexts(lengths, degrees.context, degrees.replicas(), degrees.microbatches, work);
  if (made.slots == 0)
    log.error(node,
              fmt::format("{} samples do not go into {} microbatches of {} ranks", lengths.size(), degrees.microbatches,
                          degrees.replicas()),
              "leave batch.microbatches out");
  for (int slot = 0; slot < made.slots; ++slot)
    if (made.of[at(slot)].samples.empty()) {  // rank 0 is the first to have a sample
      log.error(node, fmt::format("{} samples fill {} of {} microbatches", lengths.size(), slot, made.slots),
                fmt::format("state batch.microbatches {} at most, or leave it out", slot), code::kOutOfRange);
      return {};
    }
  if (degrees.microbatches == 0 && made.slots > 0) {
    scenario.degrees.microbatches = made.slots;
    log.resolved("batch.microbatches", std::to_string(made.slots),
                 fmt::format("derived: {} samples on {} ranks", lengths.size(), degrees.replicas()));
  }
  return made.of;
}

std::vector<SequenceShape> packed(const Node& node, ReadLog& log, Scenario& scenario) {
  MapReader reader(node, log);
  const Node* samples = reader.require("samples");
  if (reader.choice<bool>("context", {{"static", false}, {"dynamic", true}}, false))
    return assigned(node, reader, *samples, log, scenario);
  const int tokens = reader.integer("tokens", 1);
  const auto packing = reader.choice<Packing>(
      "packing", {{"balanced", Packing::Balanced}, {"sorted", Packing::Sorted}, {"first-fit", Packing::FirstFit}},
      Packing::Balanced);
  reader.finish();
  if (log.has_errors()) return {};
  const std::vector<int> lengths = sample_lengths(*samples, log);
  if (log.has_errors() || lengths.empty()) return {};
  if (const int longest = *std::max_element(lengths.begin(), lengths.end()); longest > tokens)
    log.error(*samples, fmt::format("a sample of {} tokens does not fit into a sequence of {}", longest, tokens),
              "state more tokens, or cut the sample", code::kOutOfRange);
  if (scenario.degrees.micro != 1)
    log.error(node, fmt::format("packing fills sequences one by one, and a microbatch has {}", scenario.degrees.micro),
              "state 'micro: 1'", code::kConflict);
  if (log.has_errors()) return {};
  const int data = scenario.degrees.data;
  std::vector<SequenceShape> shapes =
      pack_samples(lengths, tokens, packing, sequence_work(scenario, tokens), scenario.degrees.microbatches * data, data);
  if (shapes.empty())
    log.error(node,
              fmt::format("{} samples do not go into {} sequences of at most {} tokens in this way", lengths.size(),
                          scenario.degrees.microbatches * data, tokens),
              "leave batch.microbatches out, or state other tokens");
  return shapes;
}

// Written by rank and microbatch: do the ranks that share a sequence name the same one?
bool divides_ranks(const std::vector<SequenceShape>& shapes, const Degrees& degrees) {
  const auto tokens = [](const SequenceShape& a, const SequenceShape& b) { return a.tokens() < b.tokens(); };
  const int longest = std::max_element(shapes.begin(), shapes.end(), tokens)->tokens();
  const std::size_t ranks = at(degrees.replicas()), slots = at(degrees.microbatches);
  if ((degrees.context & (degrees.context - 1)) != 0 || ranks % at(degrees.context) != 0) return false;
  for (std::size_t slot = 0; slot < slots; ++slot)
    for (std::size_t rank = 0; rank < ranks;) {
      const SequenceShape& first = shapes[rank * slots + slot];
      const int degree = first.samples.empty() ? 1 : context_degree(first.tokens(), longest, degrees.context);
      if (rank % at(degree) != 0) return false;
      for (int member = 0; member < degree; ++member, ++rank)
        if (shapes[rank * slots + slot].samples != first.samples) return false;
    }
  return true;
}

std::vector<SequenceShape> shapes_of(const Node& node, ReadLog& log, Scenario& scenario) {
  if (node.kind == NodeKind::Sequence) return shapes_of_list(node, log);
  if (node.kind != NodeKind::Map) return shapes_of_reference(node, log);
  if (node.find("samples") != nullptr) return packed(node, log, scenario);
  const SampleLengths shares = read_shares(node, log);
  const int microbatches = scenario.degrees.microbatches * scenario.degrees.data;
  if (microbatches == 0) log.error(node, "shares of lengths need the number of microbatches", "state batch.microbatches");
  return log.has_errors() ? std::vector<SequenceShape>{} : shapes_of_shares(shares, microbatches);
}

// Not stated: the list's, shared out over the replicas.
void derive_microbatches(MapReader& reader, const Node& node, std::size_t listed, Scenario& scenario) {
  const auto data = static_cast<std::size_t>(scenario.degrees.data);
  if (listed % data != 0) {
    reader.log().error(node, fmt::format("{} microbatches cannot be shared out over {} replicas", listed, data),
                       "state batch.microbatches where every replica has the whole list");
    return;
  }
  scenario.degrees.microbatches = static_cast<int>(listed / data);
  reader.log().resolved("batch.microbatches", std::to_string(scenario.degrees.microbatches),
                        fmt::format("derived: {} lengths / data {}", listed, data));
}

}  // namespace

Key lengths_key() {
  const Key list = declare("lengths", "in tokens", items(form::whole(1)), Example{"[512, 2048]"});
  const Key shares = declare("shares", "of each length", items(form::share()), Otherwise{"equal"});
  return declare(
      "lengths",
      "tokens of each microbatch's samples, where microbatches are unequal: a list, in which a list is the samples of a packed "
      "sequence; a file with a microbatch a line; shares of lengths; or samples to be packed. One for each microbatch, or for "
      "each of every data replica",
      form::file(), items(form::whole(1), items(form::whole(1))),
      Inside{list, shares,
             declare("samples", "lengths of samples that are packed into sequences", form::file(), items(form::whole(1)),
                     Inside{list, shares, declare("count", "number of the samples", form::whole(1))},
                     Example{"[1024, 300, 700, 512]"}),
             declare("tokens", "most tokens of a packed sequence", form::whole(1), Example{"4096"}),
             declare("packing", "how samples are packed", Words{"balanced", "sorted", "first-fit"}, Fallback{"balanced"}),
             declare("context",
                     "`dynamic`: samples divide the data x context ranks among them, `parallel.context` of them the longest",
                     Words{"static", "dynamic"}, Fallback{"static"})},
      Otherwise{"all microbatches are of `workload.sequence`"}, Page{"unequal-microbatches.md"},
      Example{"[4096, 512, [1024, 1024], 512]"}, InExports::Reported);
}

void read_lengths(MapReader& reader, Scenario& scenario) {
  const Node* batch = reader.node().find("batch");
  const Node* node = batch != nullptr ? batch->find("lengths") : nullptr;
  if (node == nullptr) return;
  ReadLog& log = reader.log();
  const Degrees& degrees = scenario.degrees;
  const std::vector<SequenceShape> shapes = shapes_of(*node, log, scenario);
  if (shapes.empty() || log.has_errors()) {
    if (!log.has_errors()) log.error(*node, "no lengths are given", "", code::kEmpty);
    return;
  }
  if (degrees.microbatches == 0) derive_microbatches(reader, *node, shapes.size(), scenario);
  if (log.has_errors()) return;
  const long long one = degrees.microbatches, all = one * degrees.data;
  const auto count = static_cast<long long>(shapes.size());
  if (count != one && count != all && !(degrees.context > 1 && count == all * degrees.context)) {
    log.error(*node,
              fmt::format("{} length{} for {} microbatch{}{}", count, count == 1 ? "" : "s", one, one == 1 ? "" : "es",
                          degrees.data > 1 ? fmt::format(" of {} replicas", degrees.data) : ""),
              "give one for each microbatch" + std::string(degrees.data > 1 ? ", or for each of every data replica" : ""));
    return;
  }
  if (count != one && count != all && !divides_ranks(shapes, degrees)) {
    log.error(*node,
              fmt::format("{} lengths for {} microbatches of {} ranks name other sequences on ranks that would share one", count,
                          one, degrees.replicas()),
              "give one for each microbatch, or the samples with 'context: dynamic'");
    return;
  }
  if (scenario.samples.any())
    log.error(*batch->find("packed"),
              "batch.packed is the samples of equal microbatches, and batch.lengths gives them one by one",
              "keep one of the two; in batch.lengths a list is the samples of a sequence", code::kConflict);
  scenario.lengths = lengths_of(shapes);
  if (scenario.lengths.shapes.back().samples.empty()) {  // ranks without work
    scenario.lengths.shapes.pop_back();
    const int idle = static_cast<int>(scenario.lengths.shapes.size());
    std::replace(scenario.lengths.of.begin(), scenario.lengths.of.end(), idle, -1);
  }
  if (const Node* order = batch->find("order"); order != nullptr && order->text == "searched" && has_dynamic_context(scenario))
    log.error(*order, "the microbatches of a dynamic context stay in their order", "leave batch.order out", code::kConflict);
  const SequenceShape& longest = scenario.lengths.shapes.front();
  if (scenario.workload.sequence > 0 && longest.tokens() > scenario.workload.sequence)
    log.error(*node,
              fmt::format("a microbatch has sequences of {} tokens, and workload.sequence is {}", longest.tokens(),
                          scenario.workload.sequence),
              "leave workload.sequence out, or state the longest");
  scenario.workload.sequence = longest.tokens();
  scenario.samples = longest.packed();
}

}  // namespace panpipe
