// Reads `optimizer:`.
#include <fmt/format.h>

#include <algorithm>

#include "base/input/bound_key.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

using Group = OptimizerRequest::Group;

const std::vector<BoundKey<Group>>& group_rows() {
  static const std::vector<BoundKey<Group>> rows = {
      bound(&Group::match, "match", "pattern of names: `*` any text, `?` one letter", kRequired),
      bound(&Group::learning_rate, "learning_rate", "of these parameters", Otherwise{"the optimizer's"}),
      bound(&Group::weight_decay, "weight_decay", "of these parameters", Otherwise{"the optimizer's"})};
  return rows;
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = {"none", "sgd", "momentum", "adam", "adamw", "muon", "soap", "shampoo"};
  return names;
}

// Of optimizers that step matrices.
std::vector<BoundKey<OptimizerRequest>> matrix_rows() {
  using Request = OptimizerRequest;
  const char *page = "training.md#optimizers", *matrices = "models/optimizers.md";
  return {bound(&Request::nesterov, "nesterov", "muon: the update looks ahead along the momentum", Page{page}),
          bound(&Request::newton_schulz_steps, "newton_schulz_steps", "muon: iterations that make an update orthogonal",
                form::whole(1), Page{matrices}, ActsOn::Prediction),
          bound(&Request::update_scale,
                {{"original", UpdateScale::Original}, {"match-rms", UpdateScale::MatchRms}, {"spectral", UpdateScale::Spectral}},
                "update_scale",
                "muon: factor of a matrix's update, the root of max(1, rows / columns); 0.2 times the root of the larger side; "
                "that root",
                Page{page}),
          bound(&Request::sharding,
                {{"replicated", MatrixSharding::Replicated},
                 {"layers", MatrixSharding::Layers},
                 {"gathered", MatrixSharding::Gathered}},
                "sharding", "muon, soap, shampoo: replicas step every matrix, some of them each, or every one that they gather",
                Otherwise{"`replicated`; under ZeRO 1 `layers`, under 2 and 3 `gathered`"}, Page{matrices}, ActsOn::Prediction),
          bound(&Request::tensor_mode,
                {{"blockwise", MatrixTensorMode::Blockwise},
                 {"duplicated", MatrixTensorMode::Duplicated},
                 {"distributed", MatrixTensorMode::Distributed},
                 {"layers", MatrixTensorMode::Layers}},
                "tensor_mode",
                "muon, soap, shampoo over tensor-parallel ranks: each steps its shard, the whole that it gathers, a part of each "
                "iteration, or some of the matrices",
                Page{matrices}, ActsOn::Prediction),
          bound(&Request::block, "block", "soap, shampoo: the most rows or columns of one preconditioner", form::whole(1),
                Otherwise{"soap 10000, shampoo 1024"}, Page{matrices}, ActsOn::Prediction),
          bound(&Request::interval, "interval", "soap, shampoo: steps from one update of the preconditioners to the next",
                form::whole(1), Page{matrices}, ActsOn::Prediction)};
}

std::vector<BoundKey<OptimizerRequest>> followed_by(const std::vector<BoundKey<OptimizerRequest>>& last,
                                                    std::vector<BoundKey<OptimizerRequest>> rows) {
  rows.insert(rows.end(), last.begin(), last.end());
  return rows;
}

// Rows are read one by one, because only some optimizers have each.
const std::vector<BoundKey<OptimizerRequest>>& optimizer_rows() {
  using Request = OptimizerRequest;
  const char* page = "training.md#optimizers";
  static const std::vector<BoundKey<Request>> rows = followed_by(
      matrix_rows(),
      {{declare("name", "the optimizer", Words{optimizer_names()}, kRequired, Page{page}, ActsOn::Prediction, InExports::Stated)},
       bound(&Request::learning_rate, "learning_rate", "after warm-up, before decay", InExports::Stated),
       bound(&Request::weight_decay, "weight_decay", "share of a weight that a step takes away, times the rate",
             Otherwise{"0; adamw 0.01; muon 0.1"}, Example{"0.01"}, InExports::Stated),
       bound(&Request::momentum, "momentum", "sgd, momentum, muon", Otherwise{"0; `momentum` 0.9; `muon` 0.95"}, Example{"0.9"},
             InExports::Stated),
       {declare("betas", "adam, adamw; muon, soap, shampoo outside hidden matrices: shares of the old averages that are kept",
                items(form::number()), Fallback{"[0.9, 0.999]"}, InExports::Stated)},
       bound(&Request::epsilon, "epsilon", "as for betas: added to the root of the second moment", form::number(Sign::Positive),
             InExports::Stated),
       {declare("no_decay",
                "parameters without weight decay: kinds (`norms`, `biases`, `vectors`, `embeddings`) and patterns of names",
                form::text(), items(form::text()), Otherwise{"none"}, Page{page}, InExports::Stated)},
       {declare("groups", "separate values for matching parameters, at least one of the two each; the first match applies",
                items(Inside{declared(group_rows())}), Otherwise{"none"}, InExports::Stated)},
       bound(&Request::states, {{"fp32", StateFormat::Fp32}, {"bf16", StateFormat::Bf16}, {"8bit", StateFormat::Int8}}, "states",
             "format of the moments (adam, adamw, momentum); `8bit`: a byte per element and bitsandbytes' scales. Formats other "
             "than fp32: only in predictions",
             Otherwise{"the format of the updated tensors"}, Page{"models/memory-terms.md"}, ActsOn::Prediction),
       bound(&Request::master, {{"fp32", MasterFormat::Fp32}, {"bf16", MasterFormat::Bf16}, {"none", MasterFormat::None}},
             "master",
             "format of the master weights; `none`: the step updates the 2-byte weights themselves. Formats other than fp32: "
             "only in predictions",
             Otherwise{"`fp32` in mixed precision"}, Page{"models/memory-terms.md"}, ActsOn::Prediction)});
  return rows;
}

bool preconditions(const OptimizerRequest& optimizer) { return optimizer.name == "soap" || optimizer.name == "shampoo"; }
bool adaptive(const OptimizerRequest& optimizer) {
  return optimizer.name == "adam" || optimizer.name == "adamw" || of_matrices(optimizer);
}

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
    Group group;
    read_keys(one, group_rows(), group);
    one.finish();
    if (item->kind == NodeKind::Map && !one.has("learning_rate") && !one.has("weight_decay"))
      log.error(*item, "a group states a learning_rate, a weight_decay, or both");
    optimizer.groups.push_back(std::move(group));
  }
}

void read_numbers(MapReader& reader, OptimizerRequest& optimizer) {
  const auto read = [&](const char* key) { read_key(reader, optimizer_rows(), key, optimizer); };
  for (const char* key : {"learning_rate", "weight_decay"})
    if (belongs(reader, key, optimizer.name != "none", optimizer.name, "it updates nothing")) read(key);
  const bool has_momentum = optimizer.name == "sgd" || optimizer.name == "momentum" || optimizer.name == "muon";
  if (belongs(reader, "momentum", has_momentum, optimizer.name, "sgd has; for adam and adamw give betas")) read("momentum");
  if (belongs(reader, "betas", adaptive(optimizer), optimizer.name, "adam and adamw have")) read_betas(reader, optimizer);
  if (belongs(reader, "epsilon", adaptive(optimizer), optimizer.name, "adam and adamw have")) read("epsilon");
  if (belongs(reader, "no_decay", optimizer.name != "none", optimizer.name, "it updates nothing"))
    read_no_decay(reader, optimizer);
  if (belongs(reader, "groups", optimizer.name != "none", optimizer.name, "it updates nothing")) read_groups(reader, optimizer);
  for (const char* key : {"nesterov", "newton_schulz_steps", "update_scale"})
    if (belongs(reader, key, optimizer.name == "muon", optimizer.name, "muon has")) read(key);
  for (const char* key : {"sharding", "tensor_mode"})
    if (belongs(reader, key, of_matrices(optimizer), optimizer.name, "muon, soap and shampoo have")) read(key);
  for (const char* key : {"block", "interval"})
    if (belongs(reader, key, preconditions(optimizer), optimizer.name, "soap and shampoo have")) read(key);
  if (preconditions(optimizer) && optimizer.tensor_mode == MatrixTensorMode::Distributed)
    reader.log().error(*reader.find("tensor_mode"), fmt::format("{} has no Gram matrix that ranks could sum", optimizer.name),
                       "state blockwise, duplicated or layers");
}

// `states` and `master`: the formats of the optimizer's state and of the updated weights.
void read_formats(MapReader& reader, Precision precision, OptimizerRequest& optimizer) {
  ReadLog& log = reader.log();
  const bool keeps = adaptive(optimizer) || optimizer.name == "momentum";
  if (belongs(reader, "states", keeps, optimizer.name, "adam, adamw and momentum have"))
    read_key(reader, optimizer_rows(), "states", optimizer);
  if (!belongs(reader, "master", optimizer.name != "none", optimizer.name, "it updates nothing") || !reader.has("master")) return;
  read_key(reader, optimizer_rows(), "master", optimizer);
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

bool of_matrices(const OptimizerRequest& optimizer) { return optimizer.name == "muon" || preconditions(optimizer); }

Key optimizer_key() {
  return declare("optimizer", "the optimizer, or a map with its settings; predictions ask for its name and its formats",
                 Words{optimizer_names()}, Inside{declared(optimizer_rows())}, Otherwise{"`adam`; `none` for measured layers"},
                 Page{"training.md#optimizers"}, ActsOn::Training, InExports::Reported);
}

OptimizerRequest read_optimizer(MapReader& scenario, const std::string& fallback, Precision precision) {
  const std::vector<std::string>& names = optimizer_names();
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
    if (optimizer.name == "muon") optimizer.weight_decay = 0.1, optimizer.momentum = 0.95;
  } else if (text) {
    log.error(*name, fmt::format("unknown optimizer '{}'{}", *text, suggestion(*text, names)),
              fmt::format("an optimizer is one of {}", list_of(names)), code::kUnknownName);
  }
  if (!map) return optimizer;
  MapReader reader(*node, log);
  reader.require("name");
  if (known) {
    read_numbers(reader, optimizer);
    read_formats(reader, precision, optimizer);
  } else {
    reader.mark_declared();  // which keys it may have is not known
  }
  reader.finish();
  return optimizer;
}

}  // namespace panpipe
