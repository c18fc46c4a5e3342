// Reads `optimizer:` and `training:`.
#include <fmt/format.h>

#include <algorithm>

#include "base/input/key_record.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

namespace {

bool adaptive(const OptimizerRequest& optimizer) { return optimizer.name == "adam" || optimizer.name == "adamw"; }

// Keys that only some optimizers have.
bool belongs(MapReader& reader, const std::string& key, bool has_it, const std::string& optimizer, const std::string& help) {
  const Node* node = reader.find(key);
  if (node == nullptr || has_it) return has_it;
  reader.log().error(*node, fmt::format("optimizer '{}' has no {}", optimizer, key), help);
  return false;
}

void read_betas(MapReader& reader, OptimizerRequest& optimizer) {
  const Node* node = reader.find("betas");
  if (node == nullptr) return;
  if (node->kind != NodeKind::Sequence || node->items.size() != 2) {
    reader.log().error(*node, "betas are two numbers", "as in 'betas: [0.9, 0.999]'");
    return;
  }
  double* const values[] = {&optimizer.beta1, &optimizer.beta2};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto value = read_number(*node->items[i], reader.log(), Sign::NonNegative);
    if (!value) continue;
    if (*value >= 1)
      reader.log().error(*node->items[i], "must be below 1", "a beta is the share of the old average that is kept, as in 0.9");
    *values[i] = *value;
  }
}

// A word, or a list of words.
void read_no_decay(MapReader& reader, OptimizerRequest& optimizer) {
  const Node* node = reader.find("no_decay");
  if (node == nullptr) return;
  const auto add = [&](const Node& item) {
    if (const auto text = read_string(item, reader.log())) optimizer.no_decay.push_back(*text);
  };
  if (node->kind == NodeKind::Sequence)
    for (const auto& item : node->items) add(*item);
  else
    add(*node);
}

void read_groups(MapReader& reader, OptimizerRequest& optimizer) {
  const Node* node = reader.find("groups");
  if (node == nullptr) return;
  ReadLog& log = reader.log();
  if (node->kind != NodeKind::Sequence || node->items.empty()) {
    log.error(*node, "groups are a list of maps", "as in 'groups: [{match: \"*.wpe.weight\", learning_rate: 0.0001}]'");
    return;
  }
  for (const auto& item : node->items) {
    MapReader one(*item, log);
    OptimizerRequest::Group group;
    if (const Node* match = one.require("match")) group.match = read_string(*match, log).value_or("");
    if (const Node* rate = one.find("learning_rate")) group.learning_rate = read_number(*rate, log, Sign::NonNegative);
    if (const Node* decay = one.find("weight_decay")) group.weight_decay = read_number(*decay, log, Sign::NonNegative);
    one.finish();
    if (item->kind == NodeKind::Map && !one.has("learning_rate") && !one.has("weight_decay"))
      log.error(*item, "a group states a learning_rate, a weight_decay, or both");
    optimizer.groups.push_back(std::move(group));
  }
}

void read_numbers(MapReader& reader, OptimizerRequest& optimizer) {
  if (belongs(reader, "learning_rate", optimizer.name != "none", optimizer.name, "it updates nothing"))
    optimizer.learning_rate = reader.number("learning_rate", Sign::NonNegative, optimizer.learning_rate);
  if (belongs(reader, "weight_decay", optimizer.name != "none", optimizer.name, "it updates nothing"))
    optimizer.weight_decay = reader.number("weight_decay", Sign::NonNegative, optimizer.weight_decay);
  const bool has_momentum = optimizer.name == "sgd" || optimizer.name == "momentum";
  if (belongs(reader, "momentum", has_momentum, optimizer.name, "sgd has; for adam and adamw give betas"))
    optimizer.momentum = reader.number("momentum", Sign::NonNegative, optimizer.momentum);
  if (belongs(reader, "betas", adaptive(optimizer), optimizer.name, "adam and adamw have")) read_betas(reader, optimizer);
  if (belongs(reader, "epsilon", adaptive(optimizer), optimizer.name, "adam and adamw have"))
    optimizer.epsilon = reader.number("epsilon", Sign::Positive, optimizer.epsilon);
  if (belongs(reader, "no_decay", optimizer.name != "none", optimizer.name, "it updates nothing"))
    read_no_decay(reader, optimizer);
  if (belongs(reader, "groups", optimizer.name != "none", optimizer.name, "it updates nothing")) read_groups(reader, optimizer);
}

void read_schedule_of_rate(MapReader& reader, TrainingRequest& training) {
  using Decay = TrainingRequest::Decay;
  training.warmup_steps = reader.integer("warmup_steps", 0, 0);
  training.decay = reader.choice<Decay>(
      "decay",
      {{"constant", Decay::Constant}, {"linear", Decay::Linear}, {"cosine", Decay::Cosine}, {"inverse_sqrt", Decay::InverseSqrt}},
      Decay::Constant);
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
  training.evaluate_every = evaluate.integer("every", 1);
  if (evaluate.find("steps") != nullptr) training.evaluate_steps = evaluate.integer("steps", 1);
  evaluate.finish();
}

void read_loss_scale(MapReader& reader, TrainingRequest& training) {
  const Node* node = reader.find("loss_scale");
  note_words(reader.node(), "training.loss_scale", {"dynamic"});
  if (node == nullptr) return;
  using Kind = TrainingRequest::LossScale;
  if (node->kind == NodeKind::Map) {
    training.loss_scale = Kind::Dynamic;
    MapReader scale(*node, reader.log());
    training.initial_scale = scale.number("initial", Sign::Positive, training.initial_scale);
    training.growth_interval = scale.integer("growth_interval", 1, training.growth_interval);
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

// `states` and `master`: the formats of the optimizer's state and of the updated weights.
void read_formats(MapReader& reader, Precision precision, OptimizerRequest& optimizer) {
  ReadLog& log = reader.log();
  const bool keeps = adaptive(optimizer) || optimizer.name == "momentum";
  if (belongs(reader, "states", keeps, optimizer.name, "adam, adamw and momentum have") && reader.has("states"))
    optimizer.states = reader.choice<StateFormat>(
        "states", {{"fp32", StateFormat::Fp32}, {"bf16", StateFormat::Bf16}, {"8bit", StateFormat::Int8}});
  if (!belongs(reader, "master", optimizer.name != "none", optimizer.name, "it updates nothing") || !reader.has("master")) return;
  optimizer.master = reader.choice<MasterFormat>(
      "master", {{"fp32", MasterFormat::Fp32}, {"bf16", MasterFormat::Bf16}, {"none", MasterFormat::None}});
  if (!is_mixed(precision))
    log.error(
        *reader.find("master"),
        fmt::format("under precision {} the step updates the weights themselves, there is no master copy", name_of(precision)),
        "leave master out, or state 'precision: bf16'");
  else if (optimizer.master == MasterFormat::Bf16 && outside_products(precision) != Precision::Bf16)
    log.error(*reader.find("master"), fmt::format("a master in bf16 beside weights in {}", name_of(precision)),
              "a master is fp32 or none, or state 'precision: bf16'");
}

}  // namespace

OptimizerRequest read_optimizer(MapReader& scenario, const std::string& fallback, Precision precision) {
  static const std::vector<std::string> names = {"none", "sgd", "momentum", "adam", "adamw"};
  OptimizerRequest optimizer;
  optimizer.name = fallback;
  ReadLog& log = scenario.log();
  const Node* node = scenario.find("optimizer");
  if (node == nullptr) {
    log.resolved("optimizer", fallback, "default");
    return optimizer;
  }
  const bool map = node->kind == NodeKind::Map;
  const Node* name = map ? node->find("name") : node;
  const auto text = name != nullptr ? read_string(*name, log) : std::nullopt;
  const bool known = text && std::find(names.begin(), names.end(), *text) != names.end();
  if (known) {
    optimizer.name = *text;
    if (optimizer.name == "adamw") optimizer.weight_decay = 0.01;
    if (optimizer.name == "momentum") optimizer.momentum = 0.9;
  } else if (text) {
    log.error(*name, fmt::format("unknown optimizer '{}'{}", *text, suggestion(*text, names)),
              fmt::format("an optimizer is one of {}", list_of(names)));
  }
  if (!map) return optimizer;
  MapReader reader(*node, log);
  reader.require("name");
  if (known) {
    read_numbers(reader, optimizer);
    read_formats(reader, precision, optimizer);
  } else {  // which keys it may have is not known
    for (const char* key :
         {"learning_rate", "weight_decay", "momentum", "betas", "epsilon", "no_decay", "groups", "states", "master"})
      reader.find(key);
  }
  reader.finish();
  return optimizer;
}

HostedState read_offload(MapReader& reader, const Scenario& scenario) {
  HostedState offload;
  const Node* node = reader.find("offload");
  if (node == nullptr) return offload;
  ReadLog& log = reader.log();
  MapReader map(*node, log);
  const Choices<bool> places = {{"cpu", true}, {"none", false}};
  offload.optimizer = map.choice<bool>("optimizer", places, false);
  offload.parameters = map.choice<bool>("parameters", places, false);
  map.finish();
  if (offload.optimizer && scenario.optimizer.name == "none")
    log.error(*map.find("optimizer"), "optimizer 'none' keeps nothing that could lie in the host's memory",
              "name an optimizer, or leave offload.optimizer out");
  if (offload.optimizer && !scenario.workload.layers_file.empty())
    log.error(*map.find("optimizer"), "measured layers state the time of their optimizer's step themselves",
              "leave offload.optimizer out");
  if (offload.parameters && scenario.degrees.zero < 3)
    log.error(
        *map.find("parameters"),
        fmt::format("parameters come from the host as they are gathered, block by block, and zero is {}", scenario.degrees.zero),
        "state 'parallel: {zero: 3}', or leave offload.parameters out");
  else if (offload.parameters && scenario.degrees.data * scenario.degrees.context == 1)
    log.error(*map.find("parameters"), "parameters come from the host as they are gathered, and data 1 gathers nothing",
              "state parallel.data, or leave offload.parameters out");
  return offload;
}

TrainingRequest read_training(MapReader& scenario) {
  TrainingRequest training;
  const Node* node = scenario.find("training");
  if (node == nullptr) return training;
  MapReader reader(*node, scenario.log());
  if (node->kind == NodeKind::Map) {
    read_schedule_of_rate(reader, training);
    if (const Node* clip = reader.find("clip_gradients"))
      training.clip_gradients = read_number(*clip, scenario.log(), Sign::Positive).value_or(0);
    read_loss_scale(reader, training);
    read_evaluation(reader, training);
    if (const Node* keep = reader.find("keep_checkpoints"))
      training.keep_checkpoints = read_integer(*keep, scenario.log(), 1).value_or(0);
  }
  reader.finish();
  return training;
}

}  // namespace panpipe
