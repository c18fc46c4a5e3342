#include "costmodel/cost/recomputed_modules.hpp"

#include <string_view>

#include "costmodel/cost/fusion.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "costmodel/workload/tuning.hpp"

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
  return unit.of(i).kind == OperatorClass::Normalization || adds_input(unit, i) ||
         (role_of(unit, i) == OperatorRole::Dropout && !is_of_adapter(unit.op(i)));
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
  return any_operand(unit.op(i), [&](int t) {
    const int source = unit.root(t);
    return unit.activation(t) && (!unit.inside(source) || adds_input(unit, unit.tensor(source).producer - unit.first));
  });
}

template <class IsMember>
std::vector<bool> members_where(const UnitView& unit, IsMember is_member) {
  std::vector<bool> members;
  for (int i = 0; i < unit.size(); ++i) members.push_back(is_member(i));
  return members;
}

// Products of a module of this name, and what follows from them: shared experts, or the MLP next to attention in a block that is
// one unit.
std::vector<bool> products_in(const UnitView& unit, std::string_view module) {
  std::vector<bool> members = members_where(
      unit, [&](int i) { return unit.of(i).kind == OperatorClass::Gemm && unit.op(i).module.find(module) != std::string::npos; });
  follow(unit, members);
  return members;
}

// Between the two grouped products.
std::vector<bool> expert_activation(const UnitView& unit) {
  const auto is_product = [&](int i) { return role_of(unit, i) == OperatorRole::ExpertProduct; };
  std::vector<bool> members = members_where(unit, is_product);
  follow(unit, members);
  return members_where(unit, [&](int i) { return members[i] && !is_product(i); });
}

// The products that widen the latents, and all that leads from them to attention.
std::vector<bool> up_projection(const UnitView& unit) {
  bool latents = false;
  for (int i = 0; i < unit.size(); ++i) latents |= unit.op(i).module.ends_with("kv_b_proj");
  return members_where(unit, [&](int i) {
    const OperatorClass kind = unit.of(i).kind;
    const bool widens = kind == OperatorClass::Gemm && ends_with_any(unit.op(i).module, {".q_b_proj", ".kv_b_proj", ".q_proj"});
    return latents && (widens || (kind == OperatorClass::Elementwise && !is_around(unit, i)));
  });
}

}  // namespace

bool runs_as_a_whole(RecomputedModule module) {
  return module == RecomputedModule::Mlp || module == RecomputedModule::Moe || module == RecomputedModule::SharedExperts;
}

std::vector<bool> module_members(const UnitView& unit, RecomputedModule module) {
  const bool routed = routes(unit);
  switch (module) {
    case RecomputedModule::CoreAttention:
      return members_where(unit, [&](int i) { return unit.of(i).kind == OperatorClass::Attention; });
    case RecomputedModule::LayerNorm:
      return members_where(unit, [&](int i) { return normalizes_residual(unit, i); });
    case RecomputedModule::Mlp:
    case RecomputedModule::Moe:
      if (routed != (module == RecomputedModule::Moe)) break;
      if (is_mlp(unit)) return members_where(unit, [&](int i) { return !is_around(unit, i); });
      if (!routed) return products_in(unit, ".mlp.");
      break;
    case RecomputedModule::MoeActivation:
      return expert_activation(unit);
    case RecomputedModule::SharedExperts:
      return products_in(unit, "shared_expert");
    case RecomputedModule::MlaUpProjection:
      return up_projection(unit);
  }
  return std::vector<bool>(unit.size(), false);
}

}  // namespace panpipe
