// Reads `recompute:`.
#include <fmt/format.h>

#include <algorithm>

#include "base/input/bound_key.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/scenario/read_parts.hpp"
#include "costmodel/scenario/recompute_modes.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

const std::vector<BoundKey<RecomputeScope>>& recompute_rows() {
  const auto list = [](const char* name, const auto& choices, const char* meaning, const char* page) {
    const Key word = {.words = names_of(choices)};
    return BoundKey<RecomputeScope>{declare(name, meaning, Items{word}, Page{page})};
  };
  static const std::vector<BoundKey<RecomputeScope>> rows = {
      list("operators", recomputed_kinds(), "selective of these operators of a block",
           "models/memory.md#recompute-of-blocks-and-operators"),
      list("modules", recomputed_modules(), "selective of these modules, by Megatron-Core's names; also with the other keys",
           "models/memory.md#recompute-of-modules"),
      bound(&RecomputeScope::every, "every", "in the blocks N, 2 N, 3 N ... of the model; alone: full", form::whole(1)),
      BoundKey<RecomputeScope>{declare(
          "first", "in the first N blocks of each stage, or of stage after stage by a list (0: in none); also with `operators`",
          form::whole(1), items(form::whole(0)), Otherwise{"all"}, Example{"1"})},
      bound_if_stated(&RecomputeScope::chunk, "chunk", "full, N blocks of a stage together from one input; alone", form::whole(1),
                      Otherwise{"1"}, Example{"2"})};
  return rows;
}

// A list of names, each once.
template <class Value>
std::vector<Value> read_recomputed(const Node& list, const char* what, const Choices<Value>& choices, ReadLog& log) {
  std::vector<Value> values;
  const std::vector<std::string> names = names_of(choices);
  const std::string help = fmt::format("{}s that can be recomputed: {}", what, list_of(names));
  if (list.kind != NodeKind::Sequence || list.items.empty()) {
    log.error(list, fmt::format("expected a list of {}s", what), help);
    return values;
  }
  for (const NodePtr& item : list.items) {
    const auto word = read_string(*item, log);
    if (!word) continue;
    const auto known = std::find_if(choices.begin(), choices.end(), [&](const auto& choice) { return choice.first == *word; });
    if (known == choices.end())
      log.error(*item, fmt::format("unknown {} '{}'{}", what, *word, suggestion(*word, names)), help, code::kUnknownName);
    else if (std::find(values.begin(), values.end(), known->second) != values.end())
      log.error(*item, fmt::format("'{}' stands twice in the list", *word), "", code::kRepeated);
    else
      values.push_back(known->second);
  }
  return values;
}

// A layer of experts holds what its parts name; the core of attention is the operator of that name.
void read_recomputed_modules(const Node& list, ReadLog& log, RecomputeScope& scope) {
  scope.modules = read_recomputed(list, "module", recomputed_modules(), log);
  const auto has = [&](RecomputedModule module) {
    return std::find(scope.modules.begin(), scope.modules.end(), module) != scope.modules.end();
  };
  for (const auto& [part, name] :
       {std::pair(RecomputedModule::MoeActivation, "moe_act"), std::pair(RecomputedModule::SharedExperts, "shared_experts")})
    if (has(RecomputedModule::Moe) && has(part))
      log.error(list, fmt::format("'moe' makes the whole layer of experts again, '{}' with it", name),
                fmt::format("leave '{}' out, or 'moe'", name));
  if (!has(RecomputedModule::CoreAttention)) return;
  std::erase(scope.modules, RecomputedModule::CoreAttention);
  if (std::find(scope.operators.begin(), scope.operators.end(), RecomputedKind::Attention) == scope.operators.end())
    scope.operators.push_back(RecomputedKind::Attention);
}

// A number for all stages, or one for each.
void read_first_blocks(MapReader& map, RecomputeScope& scope) {
  const Node* first = map.find("first");
  if (first == nullptr) return;
  if (first->kind != NodeKind::Sequence) {
    scope.first = map.integer("first", 1);
    return;
  }
  for (const NodePtr& item : first->items) scope.firsts.push_back(read_integer(*item, map.log(), 0).value_or(0));
  if (scope.firsts.empty())
    map.log().error(*first, "expected a number of blocks for each stage", "as in 'recompute: {first: [4, 2, 0, 0]}'");
}

}  // namespace

Key recompute_key() {
  Key key = declare(
      "recompute",
      "`full` makes blocks again in the backward, `selective` the inside of attention; or a map: which blocks, which operators",
      Words{"auto"}, Inside{declared(recompute_rows())}, Fallback{"none"},
      Page{"models/memory.md#recompute-of-blocks-and-operators"}, InExports::Stated);
  for (const auto& mode : recompute_modes()) key.words.emplace_back(mode.first);
  return key;
}

void read_recompute(MapReader& reader, Scenario& scenario) {
  if (read_auto(reader, "recompute", "none")) return;
  const Node* node = reader.node().find("recompute");
  if (node == nullptr || node->kind != NodeKind::Map) {
    scenario.recompute = reader.choice<Recompute>("recompute", recompute_modes(), Recompute::None);
    return;
  }
  MapReader map(*reader.find("recompute"), reader.log());
  const Node *operators = map.find("operators"), *modules = map.find("modules");
  const Node* list = operators != nullptr ? operators : modules;
  if (list == nullptr && !map.has("every") && !map.has("first") && !map.has("chunk"))
    reader.log().error(
        *node, "recompute says neither which blocks nor which operators",
        "as in 'recompute: {every: 2}', '{first: 4}', '{chunk: 2}', '{operators: [norms, elementwise]}' or '{modules: "
        "[core_attn, mlp]}'");
  scenario.recompute = list != nullptr ? Recompute::Selective : Recompute::Full;
  RecomputeScope& scope = scenario.recompute_scope;
  read_keys(map, recompute_rows(), scope);
  read_first_blocks(map, scope);
  const Node *first = map.find("first"), *chunk = map.find("chunk");
  if (scope.every > 1 && first != nullptr)
    reader.log().error(*first, "'every' and 'first' both say which blocks recompute", "keep one of the two", code::kConflict);
  if (chunk != nullptr && (list != nullptr || scope.every > 1 || first != nullptr))
    reader.log().error(*chunk, "blocks that are made again together are so throughout, as a whole", "state 'chunk' alone",
                       code::kConflict);
  if (list != nullptr) scope.operators.clear();
  if (operators != nullptr) scope.operators = read_recomputed(*operators, "operator", recomputed_kinds(), reader.log());
  if (modules != nullptr) read_recomputed_modules(*modules, reader.log(), scope);
  if (list != nullptr && !scenario.workload.layers_file.empty())
    reader.log().error(*list, "which operators a measured layer holds is not known",
                       "name blocks, as in 'recompute: {every: 2}'");
  map.finish();
}

}  // namespace panpipe
