#include "costmodel/scenario/recompute_modes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace panpipe {

const Choices<Recompute>& recompute_modes() {
  static const Choices<Recompute> modes = {
      {"none", Recompute::None}, {"selective", Recompute::Selective}, {"full", Recompute::Full}};
  return modes;
}

std::string_view name_of(Recompute mode) { return word_of(recompute_modes(), mode); }

const Choices<RecomputedKind>& recomputed_kinds() {
  static const Choices<RecomputedKind> kinds = {{"attention", RecomputedKind::Attention},
                                                {"norms", RecomputedKind::Norms},
                                                {"elementwise", RecomputedKind::Elementwise},
                                                {"products", RecomputedKind::Products},
                                                {"second-products", RecomputedKind::SecondProducts}};
  return kinds;
}

const Choices<RecomputedModule>& recomputed_modules() {
  static const Choices<RecomputedModule> modules = {{"core_attn", RecomputedModule::CoreAttention},
                                                    {"layernorm", RecomputedModule::LayerNorm},
                                                    {"mlp", RecomputedModule::Mlp},
                                                    {"moe", RecomputedModule::Moe},
                                                    {"moe_act", RecomputedModule::MoeActivation},
                                                    {"shared_experts", RecomputedModule::SharedExperts},
                                                    {"mla_up_proj", RecomputedModule::MlaUpProjection}};
  return modules;
}

std::string_view name_of(RecomputedModule module) { return word_of(recomputed_modules(), module); }

namespace {

// Names of listed values.
template <class Value>
void add_names(const std::vector<Value>& listed, const Choices<Value>& choices, std::string& list) {
  for (const Value value : listed) list += fmt::format("{}{}", list.empty() ? "" : ", ", word_of(choices, value));
}

}  // namespace

std::string names_of(const std::vector<RecomputedKind>& operators) {
  std::string list;
  add_names(operators, recomputed_kinds(), list);
  return list;
}

std::string recompute_words(Recompute mode, const RecomputeScope& scope) {
  std::string text(name_of(mode));
  if (mode == Recompute::None) return text;
  if (mode == Recompute::Selective && !scope.attention_only()) {
    std::string list;
    add_names(scope.operators, recomputed_kinds(), list);
    add_names(scope.modules, recomputed_modules(), list);
    text += fmt::format(" ({})", list);
  }
  if (!scope.firsts.empty())
    text += fmt::format(", the first {} blocks of the stages", fmt::join(scope.firsts, ", "));
  else if (scope.first > 0)
    text +=
        fmt::format(", {} of each stage", scope.first == 1 ? "the first block" : fmt::format("the first {} blocks", scope.first));
  if (scope.chunk > 1) text += fmt::format(", {} blocks together", scope.chunk);
  if (scope.every > 1) text += fmt::format(", one block in {}", scope.every);
  return text;
}

}  // namespace panpipe
