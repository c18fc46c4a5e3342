// Reads `training:`.
#include <fmt/format.h>

#include "base/input/bound_key.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

const std::vector<BoundKey<TrainingRequest>>& evaluation_rows() {
  static const std::vector<BoundKey<TrainingRequest>> rows = {
      bound(&TrainingRequest::evaluate_every, "every", "steps between evaluations", form::whole(1), kRequired, Example{"10"}),
      bound_if_stated(&TrainingRequest::evaluate_steps, "steps", "batches of a step's size", form::whole(1),
                      Otherwise{"all whole batches held out"}, Example{"2"})};
  return rows;
}

const std::vector<BoundKey<TrainingRequest>>& loss_scale_rows() {
  static const std::vector<BoundKey<TrainingRequest>> rows = {
      bound(&TrainingRequest::initial_scale, "initial", "the scale at the start", form::number(Sign::Positive)),
      bound(&TrainingRequest::growth_interval, "growth_interval", "steps without overflow after which the scale doubles",
            form::whole(1))};
  return rows;
}

const std::vector<BoundKey<TrainingRequest>>& training_rows() {
  using Decay = TrainingRequest::Decay;
  static const std::vector<BoundKey<TrainingRequest>> rows = {
      bound(&TrainingRequest::warmup_steps, "warmup_steps", "updates over which the learning rate rises linearly"),
      bound(&TrainingRequest::decay,
            {{"constant", Decay::Constant},
             {"linear", Decay::Linear},
             {"cosine", Decay::Cosine},
             {"inverse_sqrt", Decay::InverseSqrt}},
            "decay", "how the rate falls to `minimum_learning_rate` at update `decay_steps`"),
      {declare("decay_start", "update until which the rate stays before it falls (linear, cosine)", form::whole(0),
               Otherwise{"`warmup_steps`"}, Example{"5"})},
      {declare("decay_steps", "updates, counted from the first, after which the decay ends (linear, cosine)", form::whole(1),
               Example{"1000"})},
      {declare("minimum_learning_rate", "the rate at the end of the decay", form::number(Sign::NonNegative), Fallback{"0"})},
      bound_if_stated(&TrainingRequest::clip_gradients, "clip_gradients", "largest norm over all parameters",
                      form::number(Sign::Positive), Otherwise{"not clipped"}, Example{"1"}),
      {declare("loss_scale", "factor on the loss, which keeps gradients of fp16 from vanishing", form::number(Sign::Positive),
               Words{"dynamic"}, Inside{declared(loss_scale_rows())}, Otherwise{"`dynamic` in fp16, else 1"}, Example{"2"})},
      {declare("evaluate", "evaluations on held-out data", Inside{declared(evaluation_rows())}, Otherwise{"never"},
               Page{"training.md#evaluation"})},
      bound_if_stated(&TrainingRequest::keep_checkpoints, "keep_checkpoints", "number of newest checkpoints to keep",
                      form::whole(1), Otherwise{"all"}, Page{"models/checkpoints.md"}, Example{"3"})};
  return rows;
}

void read_schedule_of_rate(MapReader& reader, TrainingRequest& training) {
  using Decay = TrainingRequest::Decay;
  const Node* start = reader.find("decay_start");
  const Node* steps = reader.find("decay_steps");
  const Node* minimum = reader.find("minimum_learning_rate");
  const Node* decay = reader.node().find("decay");
  if (training.decay == Decay::Constant && decay != nullptr && decay->text != "constant") return;  // complained about above
  if (training.decay == Decay::Constant) {
    for (const Node* node : {start, steps, minimum})
      if (node != nullptr)
        reader.log().error(*node, "a constant learning rate does not decay", "give 'decay: linear' or 'decay: cosine'");
    return;
  }
  if (minimum != nullptr) training.minimum_learning_rate = read_number(*minimum, reader.log(), Sign::NonNegative).value_or(0);
  if (training.decay == Decay::InverseSqrt) {
    for (const Node* node : {start, steps})
      if (node != nullptr)
        reader.log().error(*node, "the inverse square root falls from the end of the warm-up on, and has no end",
                           "leave the key out, or give 'decay: linear' or 'decay: cosine'");
    return;
  }
  if (steps == nullptr) {
    reader.log().error_at_key(reader.node(), "decay", "a learning rate that decays needs decay_steps",
                              "the number of updates after which minimum_learning_rate is reached, as in 'decay_steps: 1000'");
    return;
  }
  training.decay_steps = read_integer(*steps, reader.log(), 1).value_or(1);
  if (training.decay_steps <= training.warmup_steps)
    reader.log().error(*steps, fmt::format("the decay ends within the warm-up of {} steps", training.warmup_steps),
                       "decay_steps counts from the first step, warm-up included");
  training.decay_start = training.warmup_steps;
  if (start == nullptr) return;
  training.decay_start = read_integer(*start, reader.log(), 0).value_or(training.warmup_steps);
  if (training.decay_start < training.warmup_steps || training.decay_start >= training.decay_steps)
    reader.log().error(
        *start,
        fmt::format("the decay starts at update {}, which is not between the warm-up of {} steps and decay_steps, {}",
                    training.decay_start, training.warmup_steps, training.decay_steps),
        "decay_start counts from the first step, warm-up included");
}

void read_evaluation(MapReader& reader, TrainingRequest& training) {
  const Node* node = reader.find("evaluate");
  if (node == nullptr) return;
  MapReader evaluate(*node, reader.log());
  read_keys(evaluate, evaluation_rows(), training);
  evaluate.finish();
}

void read_loss_scale(MapReader& reader, TrainingRequest& training) {
  const Node* node = reader.find("loss_scale");
  if (node == nullptr) return;
  using Kind = TrainingRequest::LossScale;
  if (node->kind == NodeKind::Map) {
    training.loss_scale = Kind::Dynamic;
    MapReader scale(*node, reader.log());
    read_keys(scale, loss_scale_rows(), training);
    scale.finish();
  } else if (node->kind == NodeKind::Scalar && node->text == "dynamic") {
    training.loss_scale = Kind::Dynamic;
    reader.log().resolved(node->path, "dynamic", origin_of(*node));
  } else {
    ReadLog own;
    const auto value = read_number(*node, own, Sign::Positive);
    if (!value) {
      reader.log().error(*node, "a loss scale is 'dynamic', a positive number, or {initial: NUMBER, growth_interval: STEPS}",
                         "leave it out for dynamic scaling in fp16 and none otherwise");
      return;
    }
    training.loss_scale = Kind::Fixed;
    training.initial_scale = *value;
    reader.log().resolved(node->path, fmt::format("{}", *value), origin_of(*node));
  }
}

}  // namespace

Key training_key() {
  return declare("training", "what a training run does beyond its passes", Inside{declared(training_rows())}, Page{"training.md"},
                 ActsOn::Training, InExports::Stated);
}

TrainingRequest read_training(MapReader& scenario) {
  TrainingRequest training;
  const Node* node = scenario.find("training");
  if (node == nullptr) return training;
  MapReader reader(*node, scenario.log());
  if (node->kind == NodeKind::Map) {
    read_keys(reader, training_rows(), training);
    read_schedule_of_rate(reader, training);
    read_loss_scale(reader, training);
    read_evaluation(reader, training);
  }
  reader.finish();
  return training;
}

}  // namespace panpipe
