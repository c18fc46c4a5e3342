// Collectives of passes: exposed, hidden, in rings, or cut to run next to products.
#include <algorithm>

#include "costmodel/cost/expert_dispatch.hpp"
#include "costmodel/cost/graph_cost.hpp"

namespace panpipe {
namespace {

constexpr int kFittedMembers = 8;  // of tensor-parallel groups, in the runs that showed how hosts wait for one another

}  // namespace

// Index into the result's collectives.
int GraphCost::collective_of(CollectiveKind kind, Bytes size, Among among) {
  const auto same = [&](const CollectiveCost& c) {
    return c.kind == kind && c.among == among && c.bytes == size && c.parts == 1;
  };
  auto found = std::find_if(result_.collectives.begin(), result_.collectives.end(), same);
  if (found == result_.collectives.end()) {
    GroupNetwork network = site_.network(among);
    if (among == Among::Expert) dispatch_over(network, model_.scenario(), graph_.routing, site_.groups.of(among));
    CollectiveCost cost = model_.collective(kind, size, site_.groups.of(among), network);
    cost.among = among;
    found = result_.collectives.insert(result_.collectives.end(), cost);
  }
  return static_cast<int>(found - result_.collectives.begin());
}

void GraphCost::add_collective(PassCost& pass, const OperatorTime& op, CollectiveKind kind, bool backward) {
  if (kind == CollectiveKind::None || op.over_context()) return;
  // The next operator needs the result of an all-gather.
  const bool hidden =
      backward && op.among == Among::Tensor && framework().overlap_tensor_collectives && kind != CollectiveKind::AllGather;
  const int times = framework().tensor_inputs == TensorInputs::Each ? std::max(1, op.products_behind) : 1;
  for (int k = 0; k < times; ++k) {
    const Duration time = add_exchange(pass, kind, backward ? op.backward_bytes : op.collective_bytes, op.among, hidden);
    if (!hidden) add_exposed(pass, time);
  }
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

// The host launches it like any operator and waits for the other ranks' hosts, however long a launch takes. A framework that runs
// products next to tensor-parallel collectives uses operators of its own, which are counted instead.
void GraphCost::count_launches(PassCost& pass, const CollectiveCost& collective) const {
  if (const int counted = framework().collective_launches; counted > 0 && collective.among == Among::Tensor) {
    pass.host += counted;
    return;
  }
  // Fitted on tensor-parallel groups of up to eight: larger groups of other kinds count as eight.
  const int waiting = collective.kind == CollectiveKind::SendReceive ? 2
                      : collective.among == Among::Tensor            ? collective.members
                                                                     : std::min(collective.members, kFittedMembers);
  pass.host += HostWork(1, calibration_.collective_host * (std::max(0, waiting - 4) / 4.0));
}

// Number of pieces into which collectives of sequence parallelism and adjacent products are cut.
int GraphCost::tensor_chunks() const {
  if (tensor_degree() < 2) return 1;
  const int stated = framework().tensor_chunks;
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

}  // namespace panpipe
