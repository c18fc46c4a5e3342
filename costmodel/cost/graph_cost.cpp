// The costs of an operator graph's units: each distinct structure is priced once and shared by all units with it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "base/index.hpp"
#include "costmodel/cost/block_recompute.hpp"
#include "costmodel/cost/eight_bit.hpp"
#include "costmodel/cost/expert_dispatch.hpp"
#include "costmodel/cost/launch.hpp"
#include "costmodel/cost/site.hpp"
#include "costmodel/cost/unit_template.hpp"
#include "costmodel/cost/whole_bytes.hpp"
#include "costmodel/cost/workload_cost.hpp"
#include "costmodel/workload/unit_edges.hpp"

namespace panpipe {
namespace {

// Host launches around the layers (first and last stage): forward, backward. Fitted with the layers' counts.
constexpr int kEndForward = 8, kEndBackward = 12;
// Operators of a backward pass relative to those of the forward, if no count per layer applies.
constexpr double kBackwardOperators = 1.5;

// Launches of a layer's forward behind the wait for numbers of rows, beyond products and collectives: chunks sorted by expert 3,
// activation 3, rows added up 3 (megatron/core/transformer/moe, 0.12; docs/models/expert-parallelism.md).
constexpr int kBehindWait = 9;

constexpr int kFittedMembers = 8;  // of tensor-parallel groups, in the runs that showed how hosts wait for one another

struct Launches {
  int forward = 0, backward = 0;
  bool counted = false;  // the sum of what each operator launches, not a number that operators share
  bool operator==(const Launches&) const = default;
};

struct Variant {
  std::size_t shape = 0;  // index of the template
  Launches launches;
  UnitCost cost;  // without name, identity of tensors, parameters
};

class GraphCost {
 public:
  GraphCost(const CostModel& model, const OperatorGraph& graph, const DeviceRates& rates, const Calibration& calibration,
            const Site& site)
      : model_(model), graph_(graph), rates_(rates), calibration_(calibration), site_(site), use_(tensor_use(graph)) {}

  WorkloadCost run() {
    find_templates();
    share_launches();
    result_.units.reserve(graph_.units.size());
    kept_.assign(graph_.tensors.size(), false);
    input_kept_ = kept_;
    const RecomputeScope& scope = model_.scenario().recompute_scope;
    result_.recompute_spans_block = !scope.attention_only();
    if (result_.recompute_spans_block) recompute_ = listed_recompute(scope);
    for (std::size_t u = 0; u < graph_.units.size(); ++u) add_unit(u);
    result_.edges = unit_edges(graph_);
    return std::move(result_);
  }

 private:
  std::vector<UnitRecompute> listed_recompute(const RecomputeScope& scope) const {
    try {
      return recompute_in_blocks(graph_, use_, scope, rates_);
    } catch (const InputError& error) {
      throw placed(error, model_.scenario(), "recompute.modules");
    }
  }

  void find_templates() {
    std::unordered_map<std::uint64_t, std::size_t> known;
    const std::size_t count = graph_.units.size();
    shape_of_.resize(count);
    hash_of_.resize(count);
    externals_.resize(count);
    for (std::size_t u = 0; u < count; ++u) {
      const std::uint64_t hash = structure_hash(graph_, use_, static_cast<int>(u), externals_[u]);
      const std::uint64_t cost = cost_hash(graph_, use_, static_cast<int>(u), hash);
      const auto [found, is_new] = known.try_emplace(cost, templates_.size());
      if (is_new) templates_.push_back(make_template(view_of_unit(graph_, use_, static_cast<int>(u)), externals_[u], rates_));
      shape_of_[u] = found->second;
      hash_of_[u] = hash;
    }
  }

  // A transformer layer launches the kernels counted for its units. If the framework states a number, its units share that in
  // proportion to their operators. The few operators before the first layer share it with an embedding, those after the last with
  // the loss; other units launch their own.
  void share_launches() {
    const Framework& framework = model_.scenario().framework;
    const std::size_t count = graph_.units.size();
    launches_.resize(count);
    for (std::size_t u = 0, end = 0; u < count; u = end) {
      const auto together = [&](std::size_t other) {
        return use_.transformer[other] == use_.transformer[u] &&
               (!use_.transformer[u] || (graph_.units[other].layer == graph_.units[u].layer &&
                                         (graph_.units[u].layer >= 0 || graph_.units[other].block == graph_.units[u].block)));
      };
      for (end = u + 1; end < count && together(end);) ++end;
      if (use_.transformer[u] && framework.forward_operators > 0)
        share(u, end, {framework.forward_operators, framework.backward_operators}), add_of_experts(u, end);
      else if (use_.transformer[u])
        for (std::size_t one = u; one < end; ++one) launches_[one] = counted(one);
      else if (is_end(u, end))
        share(u, end, {kEndForward, kEndBackward});
      else
        for (std::size_t one = u; one < end; ++one) launches_[one] = own_launches(one);
    }
  }

  // Beyond those of a layer without experts, which the framework states.
  void add_of_experts(std::size_t first, std::size_t end) {
    const Framework& framework = model_.scenario().framework;
    for (std::size_t u = first; u < end; ++u) {
      const UnitTemplate& shape = templates_[shape_of_[u]];
      if (shape.dispatch < 0) continue;
      launches_[u].forward += framework.expert_forward_operators + shape.expert_forward;
      launches_[u].backward += framework.expert_backward_operators + shape.expert_backward;
    }
  }

  Launches counted(std::size_t u) const {
    Launches sum{.counted = true};
    for (const OperatorTime& op : templates_[shape_of_[u]].operators) {
      sum.forward += op.forward_launches;
      sum.backward += op.backward_launches;
    }
    return sum;
  }

  Launches own_launches(std::size_t u) const {
    const UnitTemplate& shape = templates_[shape_of_[u]];
    if (shape.embedding || shape.loss) return {kEndForward, kEndBackward};
    return {shape.counted, static_cast<int>(std::ceil(kBackwardOperators * shape.counted))};
  }

  bool is_end(std::size_t first, std::size_t end) const {
    if (first > 0 && end < graph_.units.size()) return false;
    int operators = 0;
    bool embedding = false, loss = false;
    for (std::size_t u = first; u < end; ++u) {
      const UnitTemplate& shape = templates_[shape_of_[u]];
      operators += shape.counted;
      embedding |= shape.embedding;
      loss |= shape.loss;
    }
    return operators <= kEndForward && (first == 0 ? embedding && end < graph_.units.size() : loss);
  }

  void share(std::size_t first, std::size_t end, const Launches& all) {
    int operators = 0, before = 0;
    for (std::size_t u = first; u < end; ++u) operators += templates_[shape_of_[u]].sharing;
    const auto part = [&](int total, int upto) { return total * upto / std::max(operators, 1); };
    for (std::size_t u = first; u < end; ++u) {
      const int after = before + templates_[shape_of_[u]].sharing;
      launches_[u] = {part(all.forward, after) - part(all.forward, before),
                      part(all.backward, after) - part(all.backward, before)};
      before = after;
    }
  }

  void add_unit(std::size_t u) {
    const auto same = [&](const Variant& v) { return v.shape == shape_of_[u] && v.launches == launches_[u]; };
    auto found = std::find_if(variants_.begin(), variants_.end(), same);
    if (found == variants_.end()) {
      variants_.push_back({shape_of_[u], launches_[u], make_unit(templates_[shape_of_[u]], launches_[u])});
      found = variants_.end() - 1;
    }
    UnitCost& unit = result_.units.emplace_back(found->cost);
    unit.name = graph_.units[u].name;
    unit.block = graph_.units[u].block;
    unit.layer = graph_.units[u].layer;
    if (templates_[shape_of_[u]].loss) result_.loss_unit = static_cast<int>(u);
    unit.structure = fmt::format("{:016x}", hash_of_[u]);
    const Profile* profile = model_.scenario().profile.get();
    const ProfiledUnit* measured = profile ? profile->unit(unit.name, unit.structure) : nullptr;
    if (profile && !measured) result_.unmeasured.push_back(unit.name);
    if (measured) use_measured(*measured, measured->name == unit.name ? CostSource::Measured : CostSource::Interpolated, unit);
    add_saved(u, unit, measured);
    if (!recompute_.empty() && !unit.block.empty()) recompute_listed(templates_[shape_of_[u]], launches_[u], recompute_[u], unit);
    add_parameters(u, unit);
  }

  // Launches of operators that run again: as many as in the forward. If the number is stated, the attention core has a quarter of
  // it and the others share the rest, so that a longer list never launches less.
  template <class RunsAgain>
  int launches_again(const UnitTemplate& shape, const Launches& launches, RunsAgain runs_again) const {
    int counted = 0;
    std::array<int, 2> all{}, again{};  // of others, and of attention
    for (std::size_t i = 0; i < shape.operators.size(); ++i) {
      const OperatorTime& op = shape.operators[i];
      all[op.attention ? 1 : 0] += op.counted ? 1 : 0;
      if (!runs_again(i)) continue;
      again[op.attention ? 1 : 0] += op.counted ? 1 : 0;
      counted += op.forward_launches;
    }
    if (launches.counted) return counted;
    const int stated = model_.scenario().framework.forward_operators;
    if (stated == 0) return launches.forward * (again[0] + again[1]) / std::max(shape.counted, 1);
    const int core = all[1] == 0 ? 0 : all[0] == 0 ? launches.forward : std::min(stated / 4, launches.forward);
    return (launches.forward - core) * again[0] / std::max(all[0], 1) + core * again[1] / std::max(all[1], 1);
  }

  // Selective recompute of listed operators.
  void recompute_listed(const UnitTemplate& shape, const Launches& launches, const UnitRecompute& recompute, UnitCost& unit) {
    unit.saved_selective = recompute.kept;
    unit.selective_inputs = recompute.inputs;
    PassCost pass;
    int counted = 0;
    for (std::size_t i = 0; i < shape.operators.size(); ++i) {
      if (!recompute.again[i]) continue;
      counted += shape.operators[i].counted ? 1 : 0;
    }
    const int operators = launches_again(shape, launches, [&](std::size_t i) { return recompute.again[i]; });
    pass.launches = operators;
    const Duration share = rates_.kernel_gap * (static_cast<double>(pass.launches) / std::max(counted, 1));
    for (std::size_t i = 0; i < shape.operators.size(); ++i) {
      if (!recompute.again[i]) continue;
      const OperatorTime& op = shape.operators[i];
      const Duration own = launches.counted ? rates_.kernel_gap * static_cast<double>(op.forward_launches) : share;
      if (op.over_context()) {
        add_over_context(pass, op, op.forward, op.counted ? own : Duration(0), false);
        continue;
      }
      add_operator(pass, op.forward, op.counted ? own : Duration(0));
      if (op.forward_collective == CollectiveKind::AllGather || recompute.whole[i])
        add_collective(pass, op, op.forward_collective, false);
    }
    if (shape.dispatch >= 0 && recompute.again[at(shape.dispatch)]) wait_for_rows(shape, operators, pass);
    unit.recompute_selective = pass;
  }

  UnitCost make_unit(const UnitTemplate& shape, const Launches& launches);
  static void take_measured(Duration time, CostSource source, PassCost& pass);
  static void use_measured(const ProfiledUnit& measured, CostSource source, UnitCost& unit);
  Duration weight_gap(const OperatorTime& op, const Launches& launches) const;
  PassCost make_backward(const UnitTemplate& shape, const UnitCost& unit, const Launches& launches, Duration input_gap);
  void add_forward(const UnitTemplate& shape, Duration gap, PassCost& forward);
  void wait_for_rows(const UnitTemplate& shape, int operators, PassCost& pass) const;
  static void add_operator(PassCost& pass, const Breakdown& cost, Duration gap, bool weight = false, bool product = false);
  int collective_of(CollectiveKind kind, Bytes size, Among among);
  void add_collective(PassCost& pass, const OperatorTime& op, CollectiveKind kind, bool backward);
  void count_launches(PassCost& pass, const CollectiveCost& collective) const;
  void add_over_context(PassCost& pass, const OperatorTime& op, const Breakdown& cost, Duration gap, bool backward);
  void add_ring(PassCost& pass, const OperatorTime& op, const Breakdown& cost, Duration gap, bool backward);
  void add_input_gradient(PassCost& pass, const OperatorTime& op, Duration gap);
  Duration add_exchange(PassCost& pass, CollectiveKind kind, Bytes size, Among among, bool hidden = false);
  static void add_exposed(PassCost& pass, Duration time);
  bool in_ring(const PassCost& pass, std::size_t piece) const;
  int tensor_degree() const { return static_cast<int>(site_.groups.tensor().size()); }
  int tensor_chunks() const;
  void cut_products(PassCost& pass);
  int part_of_collective(int whole, int parts);

  // Tensors made elsewhere are paid for by the first unit that keeps them.
  void add_saved(std::size_t u, UnitCost& unit, const ProfiledUnit* measured) {
    const UnitTemplate& shape = templates_[shape_of_[u]];
    const auto keep = [&](int external, Bytes bytes) {
      const auto t = static_cast<std::size_t>(externals_[u][external]);
      if (!kept_[t]) unit.saved += bytes;
      kept_[t] = true;
    };
    unit.saved = measured ? measured->saved : shape.saved_inside;
    if (measured) {
      for (const int external : measured->keeps)
        if (external < static_cast<int>(externals_[u].size())) keep(external, graph_.tensors[externals_[u][external]].bytes());
    } else {
      for (const SavedExternal& s : shape.saved_external) keep(s.external, s.bytes);
    }
    const double released = model_.scenario().framework.released_by_input_gradient;
    if (released >= 0 && !measured)
      unit.kept_for_weight =
          Bytes(static_cast<std::int64_t>(static_cast<double>(unit.saved.base()) * (1 - std::min(released, 1.0))));
    unit.attention_core = shape.attention_core;
    unit.saved_selective = unit.saved - unit.attention_core;
    if (graph_.units[u].block.empty()) {  // never recomputed
      unit.saved_full = unit.saved_selective = unit.saved;
      return;
    }
    for (int t : externals_[u]) {
      const Tensor& tensor = graph_.tensors[t];
      if (tensor.role != TensorRole::Activation || input_kept_[t]) continue;
      const int maker = graph_.operators[tensor.producer].unit;
      if (graph_.units[maker].block == graph_.units[u].block) continue;
      input_kept_[t] = true;
      unit.saved_full += tensor.bytes();
    }
  }

  void add_parameters(std::size_t u, UnitCost& unit) {
    for (int t : externals_[u]) {
      const Tensor& tensor = graph_.tensors[t];
      if (tensor.role == TensorRole::Parameter) unit.parameters.push_back(parameter_use(u, t));
    }
  }

  // Bytes of a frozen weight's element; QLoRA packs those of a block's products.
  double frozen_width(std::size_t u, int t) const {
    const double format = static_cast<double>(size_of(graph_.tensors[t].dtype).base());
    return rates_.unpacking > 0 && product_with(u, t) >= 0 ? kNf4Bytes : format;
  }

  bool read_in_8_bits(std::size_t u, int t) const {
    if (rates_.gemm_8bit <= ComputeRate(0)) return false;
    const int product = product_with(u, t);
    return product >= 0 && suits_8_bits(graph_, use_, product);
  }

  // The unit's operator that multiplies with weight t; -1: none.
  int product_with(std::size_t u, int t) const {
    const auto [first, end] = use_.unit_range[u];
    for (int i = first; i < end; ++i)
      if (use_.product_weight[i] == t) return i;
    return -1;
  }

  ParameterUse parameter_use(std::size_t u, int t) const {
    const Tensor& tensor = graph_.tensors[t];
    ParameterUse use;
    use.tensor = tensor.tied_to >= 0 ? tensor.tied_to : t;
    use.experts = tensor.experts;
    if (tensor.requires_gradient)
      use.elements = tensor.elements();
    else
      use.frozen = whole_bytes(static_cast<double>(tensor.elements()) * frozen_width(u, t));
    if (!read_in_8_bits(u, t)) return use;
    // Kept so from the first microbatch on, in both directions in which products read them; or in the place of 2 bytes.
    const double two_bytes = static_cast<double>(tensor.bytes().base()), copies = 2 * width_in_8_bits(rates_) * two_bytes;
    const bool packed = use.frozen > Bytes(0) && static_cast<double>(use.frozen.base()) < two_bytes;  // kept in addition
    const bool instead = model_.scenario().framework.fp8_parameters && !packed;
    use.copies = whole_bytes(instead ? copies - two_bytes : copies);
    if (instead) use.narrower = whole_bytes(two_bytes * (1 - width_in_8_bits(rates_)));
    return use;
  }

  const CostModel& model_;
  const OperatorGraph& graph_;
  const DeviceRates& rates_;
  const Calibration& calibration_;
  const Site& site_;
  const TensorUse use_;
  std::vector<UnitTemplate> templates_;
  std::vector<std::size_t> shape_of_;        // per unit
  std::vector<std::uint64_t> hash_of_;       // per unit
  std::vector<std::vector<int>> externals_;  // per unit
  std::vector<Launches> launches_;           // per unit
  std::vector<Variant> variants_;
  std::vector<bool> kept_, input_kept_;
  std::vector<UnitRecompute> recompute_;  // per unit, where the scenario lists operators
  WorkloadCost result_;
};

// `product`: may be cut, so it stays a separate piece until cut_products() has processed it.
void GraphCost::add_operator(PassCost& pass, const Breakdown& cost, Duration gap, bool weight, bool product) {
  Breakdown with_gap = cost;
  with_gap.launch = gap;
  with_gap.total = cost.total + gap;
  pass.breakdown = pass.breakdown + with_gap;
  if (with_gap.total <= Duration(0)) return;
  if (pass.pieces.empty() || pass.pieces.back().collective || pass.pieces.back().weight != weight ||
      pass.pieces.back().chunk != product) {
    pass.pieces.emplace_back();
    pass.pieces.back().weight = weight;
    pass.pieces.back().chunk = product;
  }
  pass.pieces.back().time += with_gap.total;
}

// Index into the result's collectives.
int GraphCost::collective_of(CollectiveKind kind, Bytes size, Among among) {
  const auto same = [&](const CollectiveCost& c) {
    return c.kind == kind && c.among == among && c.bytes == size && c.parts == 1;
  };
  auto found = std::find_if(result_.collectives.begin(), result_.collectives.end(), same);
  if (found == result_.collectives.end()) {
    GroupNetwork network = site_.network(among);
    if (among == Among::Expert && sends_to_nodes(model_.scenario().framework.expert_dispatch, graph_.routing))
      network.crossing = copies_over_network(graph_.routing, model_.scenario().cluster, site_.groups.of(among));
    CollectiveCost cost = model_.collective(kind, size, site_.groups.of(among), network);
    cost.among = among;
    found = result_.collectives.insert(result_.collectives.end(), cost);
  }
  return static_cast<int>(found - result_.collectives.begin());
}

void GraphCost::add_collective(PassCost& pass, const OperatorTime& op, CollectiveKind kind, bool backward) {
  if (kind == CollectiveKind::None || op.over_context()) return;
  // The next operator needs the result of an all-gather.
  const bool hidden = backward && op.among == Among::Tensor && model_.scenario().framework.overlap_tensor_collectives &&
                      kind != CollectiveKind::AllGather;
  const Duration time = add_exchange(pass, kind, backward ? op.backward_bytes : op.collective_bytes, op.among, hidden);
  if (!hidden) add_exposed(pass, time);
}

void GraphCost::add_exposed(PassCost& pass, Duration time) {
  pass.breakdown.communication += time;
  pass.breakdown.total += time;
}

// A piece whose time is not in the breakdown yet.
Duration GraphCost::add_exchange(PassCost& pass, CollectiveKind kind, Bytes size, Among among, bool hidden) {
  const int id = collective_of(kind, size, among);
  const CollectiveCost& collective = result_.collectives[id];
  pass.pieces.push_back({true, hidden, collective.time, id});
  count_launches(pass, collective);
  return collective.time;
}

// Attention with keys and values of other ranks: in a ring, or gathered, in the backward again, whose gradients are scattered.
void GraphCost::add_over_context(PassCost& pass, const OperatorTime& op, const Breakdown& cost, Duration gap, bool backward) {
  if (op.forward_collective == CollectiveKind::SendReceive) return add_ring(pass, op, cost, gap, backward);
  add_exposed(pass, add_exchange(pass, op.forward_collective, op.collective_bytes, op.among));
  add_operator(pass, cost, gap);
  if (backward) add_exposed(pass, add_exchange(pass, op.backward_collective, op.collective_bytes, op.among));
}

// n blocks of keys and values travel around the ring, each during the attention of the previous one: a + (n - 1) max(a, h) for a
// block's attention a and a hop h. In the backward the gradients of keys and values follow one block behind, and arrive after the
// same number of hops, the last of them next to the last block.
void GraphCost::add_ring(PassCost& pass, const OperatorTime& op, const Breakdown& cost, Duration gap, bool backward) {
  const auto n = static_cast<int>(site_.groups.of(Among::Context).size());
  const Bytes block(op.collective_bytes.base() / n);
  Duration exposed(0);
  for (int k = 0; k < n; ++k) {
    const int sent = (k + 1 < n ? 1 : 0) + (backward && k > 0 ? 1 : 0);  // blocks, and gradients of blocks
    const Duration attention = (cost.total + gap) / static_cast<double>(n);
    if (sent > 0) {
      const Duration hop = add_exchange(pass, CollectiveKind::SendReceive, block * sent, op.among);
      exposed += std::max(Duration(0), hop - attention);
    }
    Piece& piece = pass.pieces.emplace_back();
    piece.time = attention;
    piece.chunk = sent > 0;
  }
  Breakdown with_gap = cost;
  with_gap.launch = gap;
  with_gap.total = cost.total + gap + exposed;
  with_gap.communication += exposed;
  pass.breakdown = pass.breakdown + with_gap;
}

// True if it is attention of a ring next to a hop.
bool GraphCost::in_ring(const PassCost& pass, std::size_t piece) const {
  if (piece == 0 || !pass.pieces[piece].chunk || !pass.pieces[piece - 1].collective) return false;
  const int before = pass.pieces[piece - 1].collective_id;
  return result_.collectives[before].kind == CollectiveKind::SendReceive;
}

// The host launches it like any operator and waits for the other ranks' hosts, which counts as this many more launches. A
// framework that runs products next to tensor-parallel collectives uses operators of its own, which are counted instead.
void GraphCost::count_launches(PassCost& pass, const CollectiveCost& collective) const {
  if (const int counted = model_.scenario().framework.collective_launches; counted > 0 && collective.among == Among::Tensor) {
    pass.launches += counted;
    return;
  }
  ++pass.launches;
  // Fitted on tensor-parallel groups of up to eight: larger groups of other kinds count as eight.
  const int waiting = collective.kind == CollectiveKind::SendReceive ? 2
                      : collective.among == Among::Tensor            ? collective.members
                                                                     : std::min(collective.members, kFittedMembers);
  const double wait = calibration_.collective_host.base() * std::max(0, waiting - 4) / 4.0;
  const Duration launch = launch_alone(model_.scenario().framework, calibration_);  // as which it is counted and priced
  if (launch > Duration(0)) pass.launches += static_cast<int>(std::lround(wait / launch.base()));
}

// Number of pieces into which collectives of sequence parallelism and adjacent products are cut.
int GraphCost::tensor_chunks() const {
  if (tensor_degree() < 2) return 1;
  const int stated = model_.scenario().framework.tensor_chunks;
  return stated > 0 ? stated : tensor_degree();
}

int GraphCost::part_of_collective(int whole, int parts) {
  CollectiveCost part = result_.collectives[whole];
  part.parts = parts;
  part.bytes = Bytes(part.bytes.base() / parts);
  part.wire_bytes = Bytes(part.wire_bytes.base() / parts);
  part.latency = part.latency / parts;
  part.time = part.time / parts;
  const auto same = [&](const CollectiveCost& c) {
    return c.kind == part.kind && c.among == part.among && c.bytes == part.bytes && c.parts == parts;
  };
  auto found = std::find_if(result_.collectives.begin(), result_.collectives.end(), same);
  if (found == result_.collectives.end()) found = result_.collectives.insert(result_.collectives.end(), part);
  return static_cast<int>(found - result_.collectives.begin());
}

// Products that read a gathered tensor: the first of n chunks is this rank's own part, and each other one waits for one of n - 1
// parts of the gather. Products whose sums are scattered: each of n parts of the scatter follows a chunk. Hence n chunks of p / n
// run next to collectives of g: p / n + (n - 1) max(p / n, g / (n - 1)), and p / n + (n - 1) max(p / n, g / n) + g / n.
void GraphCost::cut_products(PassCost& pass) {
  const int n = tensor_chunks();
  if (n == 1) return;
  std::vector<Piece> pieces;
  Duration hidden(0);
  for (std::size_t i = 0; i < pass.pieces.size(); ++i) {
    const Piece& piece = pass.pieces[i];
    const bool gathers = piece.collective && i + 1 < pass.pieces.size() && pass.pieces[i + 1].chunk;
    const bool scatters = piece.chunk && i + 1 < pass.pieces.size() && pass.pieces[i + 1].collective;
    const Piece* collective = gathers ? &piece : scatters ? &pass.pieces[i + 1] : nullptr;
    const CollectiveKind kind =
        collective != nullptr ? result_.collectives[collective->collective_id].kind : CollectiveKind::None;
    if (kind != (gathers ? CollectiveKind::AllGather : CollectiveKind::ReduceScatter) || collective->hidden_behind_next) {
      pieces.push_back(piece);
      pieces.back().chunk = in_ring(pass, i);
      continue;
    }
    const int parts = gathers ? n - 1 : n;
    Piece product = gathers ? pass.pieces[i + 1] : piece, part = *collective;
    product.time = product.time / n;
    part.time = collective->time / parts;
    part.collective_id = part_of_collective(collective->collective_id, parts);
    for (int k = 0; k < n; ++k) {
      if (gathers && k + 1 < n) pieces.push_back(part);
      product.chunk = gathers ? k + 1 < n : k > 0;
      pieces.push_back(product);
      if (scatters) pieces.push_back(part);
    }
    hidden += std::min(product.time, part.time) * static_cast<double>(n - 1);
    ++i;
  }
  pass.pieces = std::move(pieces);
  pass.breakdown.communication -= hidden;
  pass.breakdown.total -= hidden;
}

// Takes the compute of a measured pass, divided between its collectives as in the formulas; collectives are measured separately.
void GraphCost::take_measured(Duration time, CostSource source, PassCost& pass) {
  PassCost taken;
  taken.breakdown.work = pass.breakdown.work;
  taken.breakdown.traffic = pass.breakdown.traffic;
  taken.breakdown.compute = time;
  taken.breakdown.source = source;
  Duration formula(0);
  bool communicates = false;
  for (const Piece& piece : pass.pieces) {
    if (!piece.collective) formula += piece.time;
    communicates |= piece.collective;
  }
  const bool whole = !communicates || formula <= Duration(0);
  if (whole && time > Duration(0)) taken.pieces.push_back({false, false, time, -1});
  for (Piece piece : pass.pieces) {
    if (piece.collective) {
      if (!piece.hidden_behind_next) taken.breakdown.communication += piece.time;
    } else {
      if (whole || time <= Duration(0)) continue;
      piece.time = time * (piece.time / formula);
    }
    taken.pieces.push_back(piece);
  }
  taken.breakdown.total = time + taken.breakdown.communication;
  pass = std::move(taken);
}

// Measured passes hold what the host did; work and traffic stay as counted.
void GraphCost::use_measured(const ProfiledUnit& measured, CostSource source, UnitCost& unit) {
  const auto take = [&](PassCost& pass, Duration time) { take_measured(time, source, pass); };
  // Where ranks sum an input gradient, the executor computes weight gradients meanwhile.
  unit.backward = unit.input_gradient;
  for (Piece& piece : unit.backward->pieces) piece.hidden_behind_next |= piece.collective;
  for (Piece piece : unit.weight_gradient.pieces) {
    piece.weight = true;
    unit.backward->pieces.push_back(piece);
  }
  unit.backward->breakdown = unit.input_gradient.breakdown + unit.weight_gradient.breakdown;
  take(*unit.backward, measured.backward);
  take(unit.forward, measured.forward);
  take(unit.input_gradient, measured.input_gradient);
  take(unit.weight_gradient, measured.weight_gradient);
  unit.recompute_full = unit.forward;
  unit.temporary = measured.temporary;
  unit.kept_for_weight = measured.kept_for_weight;
}

// Operators in their order, but for a residual sum that each rank makes of its part before the collective.
void GraphCost::add_forward(const UnitTemplate& shape, Duration gap, PassCost& forward) {
  const bool early = model_.scenario().framework.residual_before_reduction && shape.collectives > 0;
  const bool cuts = tensor_chunks() > 1;
  const auto add = [&](const OperatorTime& op) {
    const Duration own = op.counted ? gap : Duration(0);
    if (op.over_context()) return add_over_context(forward, op, op.forward, own, false);
    add_operator(forward, op.forward, own, false, cuts && op.weight_products > 0);
  };
  bool added = false;  // the residual sum
  for (auto op = shape.operators.begin(); op != shape.operators.end(); ++op) {
    if (!(added && op->residual)) add(*op);
    if (early && !added && op->forward_collective == CollectiveKind::AllReduce) {
      std::for_each(op + 1, shape.operators.end(), [&](const OperatorTime& later) {
        if (later.residual) add(later);
      });
      added = true;
    }
    add_collective(forward, *op, op->forward_collective, false);
  }
  cut_products(forward);
}

// The host reads how many rows each expert gets, and so waits until the device has done everything before. What it then launches,
// to the end of the unit, has no lead: the device waits for it. `operators`: launches that are no collectives. With a capacity
// the numbers are known beforehand.
void GraphCost::wait_for_rows(const UnitTemplate& shape, int operators, PassCost& pass) const {
  if (shape.dispatch < 0) return;
  const Scenario& scenario = model_.scenario();
  if (scenario.framework.expert_counts == ExpertCounts::Device || scenario.expert_load.capacity || scenario.cluster.given) return;
  const int behind = std::min(operators, kBehindWait + shape.expert_forward) + (pass.launches - operators);
  const Duration wait = launch_alone(scenario.framework, calibration_) * static_cast<double>(behind);
  pass.launches -= behind;
  if (wait <= Duration(0)) return;
  pass.breakdown.launch += wait;
  pass.breakdown.total += wait;
  pass.pieces.insert(pass.pieces.begin(), Piece{});
  pass.pieces.front().time = wait;
}

void GraphCost::add_input_gradient(PassCost& pass, const OperatorTime& op, Duration gap) {
  const Duration own = op.counted ? gap : Duration(0);
  if (op.over_context()) return add_over_context(pass, op, op.input_gradient, own, true);
  add_operator(pass, op.input_gradient, own, false, tensor_chunks() > 1 && op.weight_products > 0);
}

// Operator by operator from the last, each weight gradient after its input gradient. The one of a row-parallel product precedes
// the collective of the unit's input gradient; the one of a column-parallel product runs next to it.
PassCost GraphCost::make_backward(const UnitTemplate& shape, const UnitCost& unit, const Launches& launches, Duration input_gap) {
  const PassCost &input = unit.input_gradient, &weight = unit.weight_gradient;
  PassCost pass;
  std::vector<const OperatorTime*> behind;
  const auto add_weight = [&](const OperatorTime& op) { add_operator(pass, op.weight_gradient, weight_gap(op, launches), true); };
  for (auto op = shape.operators.rbegin(); op != shape.operators.rend(); ++op) {
    add_input_gradient(pass, *op, input_gap);
    if (op->enters_parallel)
      behind.push_back(&*op);
    else
      add_weight(*op);
    add_collective(pass, *op, op->backward_collective, true);
    if (op->backward_collective == CollectiveKind::None || op->among != Among::Tensor) continue;
    for (const OperatorTime* late : behind) add_weight(*late);
    behind.clear();
  }
  for (const OperatorTime* late : behind) add_weight(*late);
  cut_products(pass);
  pass.breakdown = input.breakdown + weight.breakdown;
  pass.launches = input.launches + weight.launches;
  pass.synchronises = shape.loss || shape.head;
  return pass;
}

// Kernel gaps of a weight's gradient: its product, and if operators count their own, its cast and its sum.
Duration GraphCost::weight_gap(const OperatorTime& op, const Launches& launches) const {
  return rates_.kernel_gap * static_cast<double>(launches.counted ? op.weight_launches : op.weight_products);
}

UnitCost GraphCost::make_unit(const UnitTemplate& shape, const Launches& launches) {
  UnitCost unit;
  int weights = 0;
  for (const OperatorTime& op : shape.operators) weights += launches.counted ? op.weight_launches : op.weight_products;
  unit.forward.launches = launches.forward;
  unit.input_gradient.launches = std::max(0, launches.backward - weights);
  unit.weight_gradient.launches = weights;
  const auto gap = [&](const PassCost& pass) {  // per operator
    return rates_.kernel_gap * (static_cast<double>(pass.launches) / std::max(shape.counted, 1));
  };
  const Duration forward_gap = gap(unit.forward), input_gap = gap(unit.input_gradient);
  add_forward(shape, forward_gap, unit.forward);
  wait_for_rows(shape, launches.forward, unit.forward);
  for (const OperatorTime& op : shape.operators) {
    add_operator(unit.weight_gradient, op.weight_gradient, weight_gap(op, launches));
    if (op.over_context())
      add_over_context(unit.recompute_selective, op, op.forward, Duration(0), false);
    else if (op.attention)
      add_operator(unit.recompute_selective, op.forward, Duration(0));
    if (op.attention) {
      unit.attention_forward += op.forward.total;
      unit.attention_backward += op.input_gradient.total;
      unit.causal_attention = unit.causal_attention || op.causal;
    }
  }
  for (auto op = shape.operators.rbegin(); op != shape.operators.rend(); ++op) {
    add_input_gradient(unit.input_gradient, *op, input_gap);
    add_collective(unit.input_gradient, *op, op->backward_collective, true);
  }
  cut_products(unit.input_gradient);
  if (shape.collectives > 0 && model_.scenario().framework.overlap_tensor_collectives)
    unit.backward = make_backward(shape, unit, launches, input_gap);
  // Full recompute runs the forward again, selective recompute the attention core.
  unit.recompute_full = unit.forward;
  if (shape.attention)
    unit.recompute_selective.launches =
        launches_again(shape, launches, [&](std::size_t i) { return shape.operators[i].attention; });
  if (shape.loss || shape.head)
    unit.forward.synchronises = unit.input_gradient.synchronises = unit.weight_gradient.synchronises = true;
  unit.temporary = shape.temporary;
  unit.graph_inputs = shape.graph_inputs;
  Bytes saved = shape.saved_inside;
  for (const SavedExternal& s : shape.saved_external) saved += s.bytes;
  unit.kept_for_weight = std::min(shape.kept_for_weight, saved);
  return unit;
}

}  // namespace

WorkloadCost cost_of_graph(const CostModel& model, const OperatorGraph& graph, const DeviceRates& rates,
                           const Calibration& calibration, const Site& site) {
  return GraphCost(model, graph, rates, calibration, site).run();
}

}  // namespace panpipe
