// Reads `rollout:`, the half of a step of reinforcement learning that is given (docs/post-training.md), and `batch.packed`.
#include <cmath>
#include <numeric>

#include "base/input/bound_key.hpp"
#include "base/input/run_scalars.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

const std::vector<BoundKey<RolloutRequest>>& rollout_rows() {
  static const std::vector<BoundKey<RolloutRequest>> rows = {
      bound(&RolloutRequest::time, "time", "of a step's rollouts on the GPUs that generate; or `tokens`",
            form::time(Sign::Positive), Otherwise{"tokens / tokens_per_second / GPUs"}),
      {declare("tokens", "generated for a step", form::text(), Otherwise{"none"}, Example{"4M"})},
      bound(&RolloutRequest::tokens_per_second, "tokens_per_second", "that each GPU generates, over all rollouts of a step",
            Otherwise{"none"}, Example{"2500"}),
      bound(&RolloutRequest::gpus, "gpus", "that generate and do not train; 0: those that train generate in turn"),
      bound(&RolloutRequest::staleness, "staleness",
            "steps by which the generating weights may be older; 0: each half waits for the other"),
      bound(&RolloutRequest::update, "update", "weights to the generator, and memory handed over, in each step", form::time())};
  return rows;
}

}  // namespace

Key rollout_key() {
  return declare("rollout", "the generating half of a step of reinforcement learning; the predicted training step ignores it",
                 Inside{declared(rollout_rows())}, Otherwise{"none"}, Page{"post-training.md"}, InExports::Stated);
}

std::optional<RolloutRequest> read_rollout(MapReader& scenario) {
  const Node* node = scenario.find("rollout");
  if (node == nullptr) return std::nullopt;
  MapReader reader(*node, scenario.log());
  RolloutRequest rollout;
  read_keys(reader, rollout_rows(), rollout);
  if (const Node* tokens = reader.find("tokens")) rollout.tokens = read_count(*tokens, scenario.log()).value_or(0);
  reader.finish();
  if (node->kind != NodeKind::Map) return rollout;
  const bool by_rate = reader.has("tokens") && reader.has("tokens_per_second");
  if (reader.has("time") == by_rate || reader.has("tokens") != reader.has("tokens_per_second"))
    scenario.log().error(*node, "a rollout states its time, or its tokens and the rate of a GPU, and not both",
                         "as in 'rollout: {tokens: 4M, tokens_per_second: 2500}' or 'rollout: {time: 40 s}'");
  else if (by_rate && rollout.tokens_per_second <= 0)
    scenario.log().error(*node->find("tokens_per_second"), "must be positive");
  if (rollout.staleness > 0 && rollout.gpus == 0)
    scenario.log().error(*node->find("staleness"), "GPUs that generate in turn with training wait for its weights",
                         "state the GPUs that generate alone, as in 'gpus: 16'", code::kConflict);
  return rollout;
}

Key packed_key() {
  return declare("packed", "samples packed into each sequence, which attend to themselves alone",
                 Inside{declare("lengths", "of the samples, in tokens", items(form::whole(1)), kRequired, Example{"[512, 2048]"}),
                        declare("shares", "of the samples that have each length", items(form::share()), Otherwise{"equal"},
                                Example{"[80 %, 20 %]"})},
                 Otherwise{"a sequence is one sample"}, Page{"post-training.md"}, InExports::Reported);
}

SampleLengths read_packed(MapReader& batch) {
  const Node* node = batch.find("packed");
  return node == nullptr ? SampleLengths{} : read_shares(*node, batch.log());
}

SampleLengths read_shares(const Node& node, ReadLog& log, bool counted) {
  SampleLengths samples;
  MapReader reader(node, log);
  const Node *lengths = reader.require("lengths"), *shares = reader.find("shares");
  if (counted) reader.find("count");
  reader.finish();
  if (lengths == nullptr) return samples;
  const auto list = [&](const Node& of, auto read_item) {
    std::vector<double> values;
    if (of.kind != NodeKind::Sequence || of.items.empty()) log.error(of, "must be a list of numbers");
    for (const auto& item : of.items)
      if (const auto value = read_item(*item)) values.push_back(static_cast<double>(*value));
    return values;
  };
  samples.lengths = list(*lengths, [&](const Node& item) { return read_integer(item, log, 1); });
  if (shares != nullptr) {
    samples.shares = list(*shares, [&](const Node& item) { return read_fraction(item, log); });
    const double sum = std::accumulate(samples.shares.begin(), samples.shares.end(), 0.0);
    if (shares->items.size() != lengths->items.size())
      log.error(*shares, fmt::format("{} shares for {} lengths", shares->items.size(), lengths->items.size()));
    else if (samples.shares.size() == shares->items.size() && std::abs(sum - 1) > 0.005)
      log.error(*shares, fmt::format("the shares add up to {:.4g}", sum), "they add up to 1");
  }
  samples.shares.resize(samples.lengths.size(), 1.0 / static_cast<double>(samples.lengths.size()));
  return samples;
}

}  // namespace panpipe
