#include "costmodel/cost/recomputed_modules.hpp"

#include <string_view>

#include "costmodel/cost/fusion.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

OperatorRole role_of(const UnitView& unit, int i) { return row_of(unit.op(i)).role; }

bool routes(const UnitView& unit) {
  for (int i = 0; i < unit.size(); ++i)
    if (role_of(unit, i) == OperatorRole::Routing) return true;
  return false;
}

bool is_mlp(const UnitView& unit) { return unit.graph->units[unit.op(0).unit].name.ends_with(".mlp"); }

// Around the modules of a block: its normalizations, residual sums and their dropout.
bool is_around(const UnitView& unit, int i) {
  return unit.of(i).kind == OperatorClass::Normalization || adds_input(unit, i) || role_of(unit, i) == OperatorRole::Dropout;
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends)
    if (name.ends_with(end)) return true;
  return false;
}

// Calls `visit` with the makers, in this unit, of what operator i reads.
template <class Visit>
void for_each_maker(const UnitView& unit, int i, Visit visit) {
  for_each_operand(unit.op(i), [&](int t) {
    if (unit.activation(t)) visit(unit.inside(t) ? unit.tensor(t).producer - unit.first : -1);
  });
}

// To experts, in their order, and back; and between ranks.
bool moves_rows(const OperatorRow& row) {
  return row.role == OperatorRole::Routing || row.role == OperatorRole::ExpertRows || row.role == OperatorRole::Regroup ||
         row.between_ranks();
}

// Operators without weights that read nothing but what `members` make.
void follow(const UnitView& unit, std::vector<bool>& members) {
  for (int i = 0; i < unit.size(); ++i) {
    const OperatorClass kind = unit.of(i).kind;
    if ((kind != OperatorClass::Elementwise && kind != OperatorClass::View) || moves_rows(row_of(unit.op(i)))) continue;
    bool reads = false, others = false;
    for_each_maker(unit, i, [&](int maker) {
      const bool member = maker >= 0 && members[maker];
      reads |= member;
      others |= !member;
    });
    if (reads && !others) members[i] = true;
  }
}

// In front of attention and MLP, not of queries, keys or latents.
bool normalizes_residual(const UnitView& unit, int i) {
  if (unit.of(i).kind != OperatorClass::Normalization) return false;
  bool residual = false;
  for_each_operand(unit.op(i), [&](int t) {
    if (!unit.activation(t)) return;
    const int source = unit.root(t);
    residual |= !unit.inside(source) || adds_input(unit, unit.tensor(source).producer - unit.first);
  });
  return residual;
}

std::vector<bool> shared_experts(const UnitView& unit) {
  std::vector<bool> members(unit.size(), false);
  for (int i = 0; i < unit.size(); ++i)
    members[i] = unit.of(i).kind == OperatorClass::Gemm && unit.op(i).module.find("shared_expert") != std::string::npos;
  follow(unit, members);
  return members;
}

// The MLP next to attention, in a block that is one unit.
std::vector<bool> parallel_mlp(const UnitView& unit) {
  std::vector<bool> members(unit.size(), false);
  for (int i = 0; i < unit.size(); ++i)
    members[i] = unit.of(i).kind == OperatorClass::Gemm && unit.op(i).module.find(".mlp.") != std::string::npos;
  follow(unit, members);
  return members;
}

// Between the two grouped products.
std::vector<bool> expert_activation(const UnitView& unit) {
  std::vector<bool> members(unit.size(), false), products = members;
  for (int i = 0; i < unit.size(); ++i) products[i] = members[i] = role_of(unit, i) == OperatorRole::ExpertProduct;
  follow(unit, members);
  for (std::size_t i = 0; i < members.size(); ++i) members[i] = members[i] && !products[i];
  return members;
}

// The products that widen the latents, and all that leads from them to attention.
std::vector<bool> up_projection(const UnitView& unit) {
  std::vector<bool> members(unit.size(), false);
  bool latents = false;
  for (int i = 0; i < unit.size(); ++i) latents |= unit.op(i).module.ends_with("kv_b_proj");
  for (int i = 0; i < unit.size() && latents; ++i) {
    const OperatorClass kind = unit.of(i).kind;
    members[i] = (kind == OperatorClass::Gemm && ends_with_any(unit.op(i).module, {".q_b_proj", ".kv_b_proj", ".q_proj"})) ||
                 (kind == OperatorClass::Elementwise && !is_around(unit, i));
  }
  return members;
}

}  // namespace

bool runs_as_a_whole(RecomputedModule module) {
  return module == RecomputedModule::Mlp || module == RecomputedModule::Moe || module == RecomputedModule::SharedExperts;
}

std::vector<bool> module_members(const UnitView& unit, RecomputedModule module) {
  std::vector<bool> members(unit.size(), false);
  const bool routed = routes(unit);
  switch (module) {
    case RecomputedModule::CoreAttention:
      for (int i = 0; i < unit.size(); ++i) members[i] = unit.of(i).kind == OperatorClass::Attention;
      break;
    case RecomputedModule::LayerNorm:
      for (int i = 0; i < unit.size(); ++i) members[i] = normalizes_residual(unit, i);
      break;
    case RecomputedModule::Mlp:
    case RecomputedModule::Moe:
      if (routed != (module == RecomputedModule::Moe)) break;
      if (!is_mlp(unit)) return routed ? members : parallel_mlp(unit);
      for (int i = 0; i < unit.size(); ++i) members[i] = !is_around(unit, i);
      break;
    case RecomputedModule::MoeActivation:
      return expert_activation(unit);
    case RecomputedModule::SharedExperts:
      return shared_experts(unit);
    case RecomputedModule::MlaUpProjection:
      return up_projection(unit);
  }
  return members;
}

}  // namespace panpipe
