#include "costmodel/cost/block_recompute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "costmodel/cost/fusion.hpp"
#include "costmodel/cost/narrow_products.hpp"
#include "costmodel/cost/recomputed_modules.hpp"
#include "costmodel/cost/recomputed_operators.hpp"
#include "costmodel/cost/unit_template.hpp"
#include "costmodel/cost/whole_bytes.hpp"
#include "costmodel/scenario/recompute_modes.hpp"

namespace panpipe {
namespace {

class BlockRecompute {
 public:
  BlockRecompute(const OperatorGraph& graph, const TensorUse& use, const RecomputeScope& scope, const DeviceRates& rates)
      : graph_(graph), use_(use), scope_(scope), rates_(rates) {}

  std::vector<UnitRecompute> run() {
    result_.resize(graph_.units.size());
    bytes_.assign(graph_.units.size(), 0);
    kept_.assign(graph_.tensors.size(), false);
    kept_narrow_ = kept_;
    found_.assign(scope_.modules.size(), false);
    for (std::size_t u = 0, end = 0; u < graph_.units.size(); u = end) {
      const std::string& block = graph_.units[u].block;
      for (end = u + 1; end < graph_.units.size() && graph_.units[end].block == block;) ++end;
      if (!block.empty()) run_block(static_cast<int>(u), static_cast<int>(end));
    }
    for (std::size_t m = 0; m < found_.size(); ++m)
      if (!found_[m]) throw InputError(fmt::format("the model has no module '{}'", name_of(scope_.modules[m])));
    for (std::size_t u = 0; u < result_.size(); ++u) result_[u].kept = whole_bytes(bytes_[u]);
    return std::move(result_);
  }

 private:
  bool has(RecomputedKind kind) const {
    return std::find(scope_.operators.begin(), scope_.operators.end(), kind) != scope_.operators.end();
  }
  const UnitView& view(int unit) const { return views_[unit - first_]; }
  UnitRecompute& result(int unit) { return result_[unit]; }
  double& bytes(int unit) { return bytes_[unit]; }

  bool is_listed(const OperatorWork& work, int& products) const {
    switch (work.kind) {
      case OperatorClass::Gemm:
        if (work.weight_gradient.gemms.empty()) return false;
        ++products;
        return has(RecomputedKind::Products) || (has(RecomputedKind::SecondProducts) && products % 2 == 0);
      case OperatorClass::Attention:
        return has(RecomputedKind::Attention);
      case OperatorClass::Normalization:
        return has(RecomputedKind::Norms);
      case OperatorClass::Elementwise:
        return has(RecomputedKind::Elementwise);
      default:
        return false;
    }
  }

  void run_block(int first, int end) {
    first_ = first;
    end_ = end;
    views_.clear();
    listed_.clear();
    int products = 0;
    for (int u = first; u < end; ++u) {
      views_.push_back(view_of_unit(graph_, use_, u));
      result(u).again.assign(views_.back().size(), false);
      std::vector<bool>& listed = listed_.emplace_back();
      for (const OperatorWork& work : views_.back().work) listed.push_back(is_listed(work, products));
      result(u).whole.assign(listed.size(), false);
      list_modules(u, listed);
    }
    for (int u = first; u < end; ++u) {
      const bool masks = adds_masks(view(u), rates_);
      for (int i = 0; i < view(u).size(); ++i) {
        take_operator(u, i, masks);
        if (result(u).whole[i]) run_again(u, i);
      }
    }
  }

  void list_modules(int unit, std::vector<bool>& listed) {
    for (std::size_t m = 0; m < scope_.modules.size(); ++m) {
      const std::vector<bool> members = module_members(view(unit), scope_.modules[m]);
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (!members[i]) continue;
        found_[m] = listed[i] = true;
        result(unit).whole[i] = result(unit).whole[i] || runs_as_a_whole(scope_.modules[m]);
      }
    }
  }

  void take_operator(int unit, int i, bool masks) {
    SavedTensors saved;
    keep_operator(view(unit), i, rates_, masks, saved);
    for (const int t : saved.tensors) need(t, unit, false);
    for (const int t : saved.narrow) need(t, unit, false, true);
    for (const int t : saved.copies) {
      if (has(RecomputedKind::Norms))
        need(t, unit, false);
      else
        bytes(unit) += static_cast<double>(graph_.tensors[t].bytes().base()) * rates_.replicated_saved_factor;
    }
    if (!is_listed_at(unit, i)) {
      bytes(unit) += saved.extra;
      result(unit).weight_copies += whole_bytes(weight_copies(view(unit), i));
    } else if (view(unit).of(i).kind == OperatorClass::Attention) {  // its inside: query, key, value and the result stay
      bytes(unit) += saved.extra - saved.attention;
      result(unit).again[i] = true;
    }
  }

  bool is_listed_at(int unit, int i) const { return listed_[unit - first_][i]; }

  // The backward reads tensor t; `reader` is the first unit that needs it. `runs`: its reader runs again. `eight`: its copy in 8
  // bits. Kept tensors count at the reader, because a cut may separate the reader from the maker.
  void need(int t, int reader, bool runs, bool eight = false) {
    int entered = -1;  // as which it comes into the reader
    while (t >= 0) {
      const Tensor& tensor = graph_.tensors[t];
      if (tensor.role != TensorRole::Activation || tensor.producer < 0) return;
      const int unit = graph_.operators[tensor.producer].unit;
      if (entered < 0 && unit != reader) entered = t;
      if (unit < first_ || unit >= end_) {
        keep(t, reader, rates_.replicated_saved_factor, eight);
        return;
      }
      const UnitView& maker = view(unit);
      const int i = tensor.producer - maker.first;
      const OperatorClass kind = maker.of(i).kind;
      const CollectiveKind sums = maker.op(i).forward_collective;
      const bool gathers = sums == CollectiveKind::None || sums == CollectiveKind::AllGather;
      if (kind == OperatorClass::View || (kind == OperatorClass::Collective && gathers)) {
        if (runs && sums == CollectiveKind::AllGather) result(unit).again[i] = true;
        t = first_operand(maker.op(i));
        continue;
      }
      const double factor = is_replicated(maker, i) ? rates_.replicated_saved_factor : rates_.sharded_saved_factor;
      if (kind != OperatorClass::Attention && is_listed_at(unit, i)) return run_again(unit, i);
      if (keep(t, reader, factor, eight) && entered >= 0) result(reader).inputs.push_back(entered);
      return;
    }
  }

  void run_again(int unit, int i) {
    if (result(unit).again[i]) return;
    result(unit).again[i] = true;
    for_each_operand(view(unit).op(i), [&](int t) { need(t, unit, true); });
  }

  // False if it is counted already.
  bool keep(int t, int unit, double factor, bool eight) {
    std::vector<bool>& kept = eight ? kept_narrow_ : kept_;
    if (kept[t]) return false;
    kept[t] = true;
    if (eight) factor *= narrow_width(rates_);
    bytes(unit) += static_cast<double>(graph_.tensors[t].bytes().base()) * factor;
    return true;
  }

  const OperatorGraph& graph_;
  const TensorUse& use_;
  const RecomputeScope& scope_;
  const DeviceRates& rates_;
  std::vector<UnitRecompute> result_;
  std::vector<double> bytes_;             // per unit
  std::vector<bool> kept_, kept_narrow_;  // per tensor: paid for
  std::vector<bool> found_;               // per listed module
  // State of the current block: its units, their views, the listed operators.
  int first_ = 0, end_ = 0;
  std::vector<UnitView> views_;
  std::vector<std::vector<bool>> listed_;
};

}  // namespace

std::vector<UnitRecompute> recompute_in_blocks(const OperatorGraph& graph, const TensorUse& use, const RecomputeScope& scope,
                                               const DeviceRates& rates) {
  return BlockRecompute(graph, use, scope, rates).run();
}

// Of an operator each in a kernel: the recomputed set depends on the tensors that their backwards read.
std::vector<RecomputedPart> recomputed_operators(const OperatorGraph& graph, const RecomputeScope& scope) {
  const TensorUse use = tensor_use(graph);
  DeviceRates rates;
  rates.elementwise = Elementwise::Eager;
  const std::vector<UnitRecompute> units = recompute_in_blocks(graph, use, scope, rates);
  std::vector<RecomputedPart> result(graph.operators.size(), RecomputedPart::Nothing);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const UnitView view = view_of_unit(graph, use, static_cast<int>(u));
    for (std::size_t i = 0; i < units[u].again.size(); ++i)
      if (units[u].again[i])
        result[static_cast<std::size_t>(view.first) + i] =
            view.work[i].kind == OperatorClass::Attention ? RecomputedPart::Inside : RecomputedPart::Result;
  }
  return result;
}

void recompute_one_block_in(int every, WorkloadCost& cost) {
  int number = 0;
  const std::string* block = nullptr;
  for (UnitCost& unit : cost.units) {
    if (unit.block.empty()) continue;
    if (block == nullptr || unit.block != *block) ++number;
    block = &unit.block;
    if (number % every == 0) continue;
    unit.recomputes = false;
    unit.saved_selective = unit.saved_full = unit.saved;
    unit.recompute_selective = unit.recompute_full = PassCost{};
  }
}

}  // namespace panpipe
