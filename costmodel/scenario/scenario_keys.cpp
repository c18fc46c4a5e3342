#include "costmodel/scenario/scenario_keys.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "schedule/find_family.hpp"

namespace panpipe {

namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;

const Keys& base() {
  static const Keys keys = {{"panpipe", "1"},
                            {"cluster", "{file: clusters/dgx-a100-80g.yaml, nodes: 2}"},
                            {"workload", "{model: gpt2-large}"},
                            {"batch", "{micro: 1, microbatches: 16}"},
                            {"parallel", "{pipeline: 4, tensor: 2, data: 2}"}};
  return keys;
}

// One scenario for each form of a key. Files named here need not exist, because a reader records a key before it looks for the
// file.
std::vector<Keys> forms() {
  std::vector<Keys> all = {
      {},
      {{"description", "words"}, {"kind", "scenario"}},
      {{"cluster", "{devices: 4, memory: 24 GiB, usable: 85 %, link: {latency: 1 us, bandwidth: 10 GB/s, shared: true}}"},
       {"parallel", "{pipeline: 4}"}},
      {{"cluster", "{devices: 4, memory: 24 GiB, link: {table: [[0 B, 20 us], [1 MiB, 30 us]]}}"}, {"parallel", "{pipeline: 4}"}},
      {{"cluster",
        "{device: {file: devices/a100-80g-sxm.yaml, memory: 80 GB}, wiring: {topology: FILE}, usable: 90 %, name: here}"}},
      {{"cluster", "{groups: [{device: a100-80g-sxm, nodes: 1, devices_per_node: 8, wiring: {}, network: {}}], network: {}}"}},
      {{"workload", "{model: gpt, layers: 4, hidden: 512, heads: 8, sequence: 512, vocabulary: 8192, dropout: 0.1}"}},
      {{"workload", "{model: llama2-7b, lora: {}, frozen: [], weights: FILE}"}},
      {{"workload", "{model: llama2-7b, lora: {rank: 8, alpha: 16, targets: [q_proj]}}"}},
      {{"workload", "{model: llama2-7b, lora: {rank: 8, targets: all-linear, base: nf4}, frozen: all}"}},
      {{"workload", "{config: {model_type: gpt2, n_layer: 8}, layers: 4}"}},
      {{"workload", "{layers: FILE}"}},
      {{"workload", "{pt2: FILE}"}},
      {{"workload", "{config: FILE, sequence: 512, lora: {rank: 8}, frozen: [all]}"}},
      {{"batch", "{micro: auto, global: 16}"}},
      {{"parallel",
        "{pipeline: 1, tensor: 2, data: 8, zero: 1, shard: 4, context: 1, context_exchange: ring, virtual_stages: 1, "
        "sequence_parallel: true, expert: 1, expert_tensor: 1}"}},
      {{"cluster", "dgx-a100-80g"}, {"parallel", "{pipeline: 4}"}},
      {{"cluster", "{file: dgx-a100-80g, device: a100-80g-sxm, collectives: aws-p5, description: a, source: b}"},
       {"parallel", "{pipeline: 4}"}},
      {{"cluster", "{file: dgx-a100-80g, nodes: 2, device: {file: a100-80g-sxm, memory: 80 GB}, network: {spine: 50 GB/s}}"}},
      {{"schedule", "1f1b"}},
      {{"schedule", "[1f1b, zb-h1]"}},
      {{"schedule", "{name: mine, csv: [\"0F0,0B0\"], braid: split}"}},
      {{"schedule", "{csv: FILE, braid: split, offload: none, recompute: none, offload_waiting: true, offload_stagger: 1}"}},
      {{"partition", "[12, 24, 36]"}},
      {{"placement", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]"}},
      {{"recompute", "{every: 2, first: 1, chunk: 1, operators: [norms], modules: [mlp]}"}},
      {{"optimizer", "adam"}},
      {{"optimizer", "{name: momentum}"}},
      {{"optimizer", "{name: adamw}"}},
      {{"optimizer", "{name: sgd}"}},
      {{"partition", "auto"}},
      {{"optimizer",
        "{name: sgd, groups: [{match: a, learning_rate: 0.1, weight_decay: 0.1}], no_decay: [norms], momentum: 0.9}"}},
      {{"optimizer", "{name: adamw, betas: [0.9, 0.95], epsilon: 1e-8, states: bf16, master: fp32}"}},
      {{"training",
        "{warmup_steps: 1, decay: cosine, decay_steps: 20, decay_start: 5, minimum_learning_rate: 0.1, loss_scale: "
        "{initial: 2, growth_interval: 2}, clip_gradients: 1, keep_checkpoints: 3, evaluate: {every: 2, steps: 3}}"},
       {"data", "{tokens: FILE, width: 16, shuffle: true, validation: FILE, held_out: 5 %}"}},
      {{"training", "{loss_scale: dynamic, decay: inverse_sqrt}"}, {"data", "{tensors: FILE}"}},
      {{"training", "{loss_scale: 2}"}, {"data", "{synthetic: true}"}},
      {{"framework", "megatron"}, {"profile", "FILE"}, {"usable", "90 %"}, {"offload", "{optimizer: cpu, parameters: cpu}"}},
      {{"framework", "{name: megatron, attention: unfused}"},
       {"profile", "[FILE]"},
       {"experts", "{imbalance: 1.2, capacity: 1.25}"}},
      {{"overlap_gradients", "true"}, {"gradient_bucket", "25 MiB"}, {"transfers", "{semantics: blocking}"}},
      {{"run",
        "{tokens: 1000000, price: 2 USD, carbon: 400 g/kWh, checkpoint: {size: 60 GB, bandwidth: 20 GB/s, interval: 30 min}, "
        "failures: {mtbf: 5000 h, restart: 10 min}, power: {share: 80 %, node: 100 W, pue: 1.2}}"}},
      {{"run",
        "{samples: 1000, price: FILE, checkpoint: {time: 30 s, interval: auto}, failures: {node_mtbf: 5000 h}, power: {gpu: 7 "
        "W}}"}},
      {{"run", "{steps: 1000}"}},
  };
  for (const ScheduleFamily& family : schedule_families()) {
    std::string options;
    for (const auto& option : family.options) options += fmt::format(", {}: {}", option.first, option.second);
    all.push_back({{"schedule", fmt::format("{{name: {}{}, braid: split, offload: none, recompute: none, offload_waiting: true}}",
                                            family.name, options)}});
  }
  const char* dimensions =
      "layers: 4, hidden: 512, heads: 8, kv_heads: 4, head_size: 64, ffn: 1024, sequence: 512, vocabulary: 8192, image: 224, "
      "patch: 16, "
      "classes: 10, vision_layers: 2, vision_hidden: 256, vision_heads: 4, vision_ffn: 512, tied_embedding: true, dropout: 0.1";
  for (const char* model : {"gpt", "bert", "vit", "unet", "mllm", "llama"})
    all.push_back({{"workload", fmt::format("{{model: {}, {}}}", model, dimensions)}});
  for (const char* cluster :
       {"rtx3090x8", "rtx3090x8-nobridge", "a100-80g-pcie-x4", "h20x8-x2", "h100x8", "aws-p5", "epyc-7742-x2"})
    all.push_back({{"cluster", fmt::format("{{file: clusters/{}.yaml, usable: 90 %}}", cluster)}});
  return all;
}

std::string text_of(const Keys& form) {
  std::string text;
  const auto stated = [&](const std::string& name) {
    for (const auto& [key, value] : form)
      if (key == name) return true;
    return false;
  };
  for (const auto& [key, value] : base())
    if (!stated(key)) text += key + ": " + value + "\n";
  for (const auto& [key, value] : form) text += key + ": " + value + "\n";
  return text;
}

// A value that is read without a form, such as a file's name: a legal scenario shows the form.
void note_legal(const Node& node, KeyRecord& record) {
  KeyFact& fact = *record.at(node, node.path);
  if (node.kind == NodeKind::Scalar && fact.forms.empty() && fact.words.empty()) fact.forms.insert(ValueForm::Text);
  for (const NodePtr& item : node.items) note_legal(*item, record);
  for (const Node::Entry& entry : node.entries) note_legal(*entry.value, record);
}

}  // namespace

std::map<std::string, KeyFact> scenario_keys() {
  constexpr const char* kName = "a form of a scenario";
  KeyRecord record;
  record.watch(kName, "cluster");
  for (const Keys& form : forms()) try {
      note_legal(*parse_scenario(text_of(form), kName, "").document, record);
    } catch (const InputError&) {
      // The file does not exist, but its keys were recorded.
    }
  return record.facts();
}

}  // namespace panpipe
