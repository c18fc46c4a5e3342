// Context parallelism: what ranks exchange and keep, and that they share the work of a sample.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/costmodel/cost/priced_models.hpp"

namespace panpipe {
namespace {

constexpr int kHidden = 4096, kSequence = 8192, kLayers = 2;

std::unique_ptr<Made> made(int context, const std::string& exchange, int tensor = 1, const std::string& more = "",
                           const std::string& cluster = "dgx-a100-80g") {
  return make(fmt::format(R"(panpipe: 1
cluster: {{file: clusters/{}.yaml, nodes: 1}}
workload: {{model: llama, layers: {}, hidden: {}, heads: 32, kv_heads: 8, ffn: 11008, vocabulary: 32000, sequence: {}}}
batch: {{micro: 1, microbatches: 8}}
precision: bf16
parallel: {{pipeline: 1, tensor: {}, context: {}, context_exchange: {}}}
framework: megatron-core
{})",
                          cluster, kLayers, kHidden, kSequence, tensor, context, exchange, more));
}

// Bytes that a member sends for others of its context group in a pass.
double sent(const PassCost& pass, const WorkloadCost& cost) {
  double bytes = 0;
  for (const Piece& piece : pass.pieces) {
    if (!piece.collective) continue;
    const CollectiveCost& c = cost.collectives[piece.collective_id];
    if (c.among == Among::Context) bytes += static_cast<double>(c.wire_bytes.base());
  }
  return bytes;
}

const UnitCost& attention_of(const WorkloadCost& cost) {
  for (const UnitCost& unit : cost.units)
    if (unit.name == "h.0.attention") return unit;
  throw std::runtime_error("no attention");
}

// Keys and values of a rank: 2 x (8 / t heads x 128 features) x S / c tokens x 2 bytes. Forward n - 1 hops of them, or a ring's
// all-gather, which is as much; backward they go again, and so do their gradients.
TEST(Context, KeysAndValuesGoRound) {
  for (const int context : {2, 4})
    for (const int tensor : {1, 2}) {
      const double block = 2.0 * (8 / tensor * 128) * (kSequence / context) * 2;
      for (const std::string exchange : {"ring", "all-gather"}) {
        const auto m = made(context, exchange, tensor);
        const UnitCost& unit = attention_of(m->cost());
        EXPECT_NEAR(sent(unit.forward, m->cost()), (context - 1) * block, 2) << exchange << context;
        EXPECT_NEAR(sent(unit.input_gradient, m->cost()), 2 * (context - 1) * block, 4) << exchange << context;
      }
    }
}

// Queries and results of 32 / t heads, keys and values of 8 / t, S / c tokens, (c - 1) / c of each leave; backward the same.
TEST(Context, UlyssesSendsAllHeads) {
  for (const int context : {2, 4}) {
    const auto m = made(context, "ulysses", 2);
    const double local = 2.0 * (32 + 8) / 2 * 128 * (kSequence / context) * 2, share = (context - 1.0) / context;
    const UnitCost& unit = attention_of(m->cost());
    EXPECT_NEAR(sent(unit.forward, m->cost()), share * local, 4);
    EXPECT_NEAR(sent(unit.input_gradient, m->cost()), share * local, 4);
  }
}

TEST(Context, RanksShareTheWorkOfASample) {
  const auto whole = made(1, "ring");
  const auto work = [](const Made& m) {
    double sum = 0;
    for (const UnitCost& unit : m.cost().units)
      for (const PassCost* pass : {&unit.forward, &unit.input_gradient, &unit.weight_gradient})
        sum += pass->breakdown.work.base();
    return sum;
  };
  for (const std::string exchange : {"ring", "all-gather", "ulysses"})
    for (const int context : {2, 4, 8}) {
      const auto m = made(context, exchange);
      EXPECT_NEAR(context * work(*m) / work(*whole), 1, 1e-12) << exchange << context;
      EXPECT_EQ(m->workload.model_flops, whole->workload.model_flops) << exchange << context;
      EXPECT_EQ(m->workload.parameters, whole->workload.parameters);
    }
}

// Activations are those of a rank's tokens. Ulysses keeps the attention's result twice: before and after the heads come back.
TEST(Context, ActivationsAreOfARanksTokens) {
  const double whole = layer_of(made(1, "ring")->cost()).saved;
  for (const int context : {2, 4}) {
    EXPECT_NEAR(context * layer_of(made(context, "ring")->cost()).saved / whole, 1, 1e-9);
    EXPECT_NEAR(context * layer_of(made(context, "all-gather")->cost()).saved / whole, 1, 1e-9);
    const double twice = 2.0 * kHidden * (kSequence / context);
    EXPECT_NEAR(layer_of(made(context, "ulysses")->cost()).saved, whole / context + twice, 1);
    // Gathered keys and values are whole next to it, those of a ring two blocks at a time.
    EXPECT_GE(attention_of(made(context, "all-gather")->cost()).temporary, attention_of(made(context, "ring")->cost()).temporary);
  }
}

// A ring hides its hops behind the blocks: what is left is what a hop takes longer than a block's attention.
TEST(Context, ARingIsExposedWhereHopsAreLonger) {
  const auto check = [](const Made& m, bool backward) {
    const UnitCost& unit = attention_of(m.cost());
    const PassCost& pass = backward ? unit.input_gradient : unit.forward;
    double exposed = 0;
    std::size_t hops = 0;
    for (std::size_t i = 0; i < pass.pieces.size(); ++i) {
      if (!pass.pieces[i].collective) continue;
      ++hops;
      exposed += std::max(0.0, (pass.pieces[i].time - pass.pieces[i + 1].time).base());
    }
    EXPECT_EQ(hops, backward ? 4U : 3U);
    EXPECT_NEAR(pass.breakdown.communication.base(), exposed, 1e-15);
    double compute = 0;
    for (const Piece& piece : pass.pieces)
      if (!piece.collective) compute += piece.time.base();
    EXPECT_NEAR(pass.breakdown.total.base(), compute + exposed, 1e-12);
  };
  for (const bool backward : {false, true}) check(*made(4, "ring"), backward);
}

// Each of a ring's n - 1 later blocks is merged: read, read with the sum and written, 3 (n - 1) times the output of 32 heads x
// 128 features x S / n tokens x 2 bytes; backward the same of the query's gradient, which is as large, and of a block of
// gradients of keys and values, 2 x 8 heads x 128 features x S / n tokens x 2 bytes. Gathered keys and values are not merged.
TEST(Context, ARingMergesItsBlocks) {
  for (const int context : {2, 4}) {
    const auto ring = made(context, "ring"), gathered = made(context, "all-gather");
    const UnitCost &in_ring = attention_of(ring->cost()), &whole = attention_of(gathered->cost());
    const std::int64_t tokens = kSequence / context, output = 32 * 128 * tokens * 2, block = 2 * 8 * 128 * tokens * 2;
    const auto more = [](const PassCost& a, const PassCost& b) { return (a.breakdown.traffic - b.breakdown.traffic).base(); };
    EXPECT_EQ(more(in_ring.forward, whole.forward), 3 * (context - 1) * output) << context;
    EXPECT_EQ(more(in_ring.input_gradient, whole.input_gradient), 3 * (context - 1) * (output + block)) << context;
  }
}

// By hand: 8 members in a node, 7/8 of S at the fabric's rate; over two nodes the half that leaves, by each member's share of the
// way out.
TEST(Context, AllToAllByPeers) {
  const auto m = made(8, "ulysses");
  const CollectiveCost one =
      m->model->collective(CollectiveKind::AllToAll, Bytes(std::int64_t{1} << 30), {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(one.algorithm, Algorithm::Peers);
  EXPECT_EQ(one.wire_bytes, Bytes((std::int64_t{1} << 30) / 8 * 7));
  const CollectiveCost gather =
      m->model->collective(CollectiveKind::AllGather, Bytes(std::int64_t{1} << 30), {0, 1, 2, 3, 4, 5, 6, 7});
  // As many bytes as a ring's all-gather, at the same rate.
  EXPECT_NEAR((one.time - one.latency).base(), (gather.time - gather.latency).base(), 1e-12);
}

}  // namespace
}  // namespace panpipe
