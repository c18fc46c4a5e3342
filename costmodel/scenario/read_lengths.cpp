// `batch.lengths`, microbatches of unequal length: docs/unequal-microbatches.md.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/input/source_text.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {
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

// So many microbatches of a distribution, each length as evenly spread as their numbers allow; these are the shares' by largest
// remainders.
std::vector<SequenceShape> shapes_of_shares(const SampleLengths& shares, int microbatches) {
  std::vector<int> count(shares.lengths.size());
  std::vector<std::size_t> order;
  int left = microbatches;
  const auto exact = [&](std::size_t k) { return shares.shares[k] * microbatches; };
  for (std::size_t k = 0; k < count.size(); ++k) {
    count[k] = static_cast<int>(exact(k));
    left -= count[k];
    order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return exact(a) - count[a] > exact(b) - count[b]; });
  for (int k = 0; k < left; ++k) ++count[order[at(k) % order.size()]];
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

std::vector<SequenceShape> shapes_of(const Node& node, ReadLog& log, int microbatches) {
  if (node.kind == NodeKind::Sequence) return shapes_of_list(node, log);
  if (node.kind == NodeKind::Map) {
    const SampleLengths shares = read_shares(node, log);
    return log.has_errors() ? std::vector<SequenceShape>{} : shapes_of_shares(shares, microbatches);
  }
  const auto file = read_file_reference(node, log, "file of lengths");
  if (!file) return {};
  try {
    return shapes_of_file(*file);
  } catch (const InputError& error) {
    log.add_at(node, error);
    return {};
  }
}

}  // namespace

Key lengths_key() {
  Key key = packed_key();
  key.name = "lengths";
  key.forms = {form::file()};
  key.items = {{.forms = {form::whole(1)}, .items = {{.forms = {form::whole(1)}}}}};
  key.otherwise = "all microbatches are of `workload.sequence`";
  key.meaning =
      "tokens of each microbatch's samples, where microbatches are unequal: a list, in which a list is the samples packed into a "
      "sequence; a file with a microbatch a line; or shares of lengths. One for each microbatch, or for each of every data "
      "replica";
  key.page = "unequal-microbatches.md";
  key.example = "[4096, 512, [1024, 1024], 512]";
  return key;
}

void read_lengths(MapReader& reader, Scenario& scenario) {
  const Node* batch = reader.node().find("batch");
  const Node* node = batch != nullptr ? batch->find("lengths") : nullptr;
  if (node == nullptr) return;
  ReadLog& log = reader.log();
  const Degrees& degrees = scenario.degrees;
  const long long one = degrees.microbatches, all = one * degrees.data;
  const std::vector<SequenceShape> shapes = shapes_of(*node, log, static_cast<int>(all));
  if (shapes.empty() || log.has_errors()) {
    if (!log.has_errors()) log.error(*node, "no lengths are given", "", code::kEmpty);
    return;
  }
  if (const auto count = static_cast<long long>(shapes.size()); count != one && count != all) {
    log.error(*node,
              fmt::format("{} length{} for {} microbatch{}{}", count, count == 1 ? "" : "s", one, one == 1 ? "" : "es",
                          degrees.data > 1 ? fmt::format(" of {} replicas", degrees.data) : ""),
              "give one for each microbatch" + std::string(degrees.data > 1 ? ", or for each of every data replica" : ""));
    return;
  }
  if (scenario.samples.any())
    log.error(*batch->find("packed"),
              "batch.packed is the samples of equal microbatches, and batch.lengths gives them one by one",
              "keep one of the two; in batch.lengths a list is the samples of a sequence", code::kConflict);
  scenario.lengths = lengths_of(shapes);
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
