// A framework's differences from the fused reference: factors on replicated parts, the order of a full backward, saved tensors.
#include <gtest/gtest.h>

#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

constexpr int kHidden = 4096, kHeads = 32, kKeyValueHeads = 8, kFfn = 11264, kSequence = 2048, kTensor = 2;
constexpr double kTokens = kSequence;                      // one sample
constexpr double kReplicated = kTokens * kHidden;          // elements of a tensor that every rank holds whole
constexpr double kBytesPerSecond = 2039e9 * 0.85 / 0.913;  // A800: memory bandwidth x efficiency over elementwise_scale

// A Llama of two layers with a framework of the given lines, TP2 on A800.
std::unique_ptr<Made> with(const std::string& lines, bool sequence = false) {
  const std::string path =
      test::scratch().write("framework.yaml",
                            "panpipe: 1\nkind: framework\nname: trial\nattention: {value: flash, source: test}\n"
                            "dropout: {value: false, source: test}\n" +
                                lines);
  auto made = make(fmt::format(R"(panpipe: 1
cluster: clusters/a800x8.yaml
workload: {{model: llama, layers: 2, hidden: {}, heads: {}, kv_heads: {}, ffn: {}, vocabulary: 32000, sequence: {}}}
batch: {{micro: 1, microbatches: 8}}
precision: bf16
parallel: {{pipeline: 1, tensor: {}, sequence_parallel: {}}}
framework: {}
)",
                               kHidden, kHeads, kKeyValueHeads, kFfn, kSequence, kTensor, sequence, path));
  made->cost();
  return made;
}

std::string line(const std::string& key, const std::string& value) {
  return fmt::format("{}: {{value: {}, source: test}}\n", key, value);
}

const UnitCost& unit_named(const Made& made, const std::string& name) {
  for (const UnitCost& unit : made.cost().units)
    if (unit.name == name) return unit;
  throw std::runtime_error("no unit " + name);
}

std::string kinds(const PassCost& pass) {  // c compute, w weight gradient, A collective, H hidden collective
  std::string text;
  for (const Piece& piece : pass.pieces)
    text += piece.collective ? (piece.hidden_behind_next ? 'H' : 'A') : (piece.weight ? 'w' : 'c');
  return text;
}

// Forward, per unit: the norm reads and writes 2 x 2 bytes an element, the residual sum reads 2 x 2 and writes 2. Backward: the
// norm reads the gradient and its input and writes a gradient (6), its weight's gradient reads both again (4), and the residual's
// gradient is added (6). Sums inside (of the rotary embedding) and statistics of a row are no part of it, or small.
TEST(ReplicatedFactor, CountsNormsAndResidualSumsAlone) {
  const auto one = with(""), five = with(line("replicated_factor", "5"));
  for (const char* name : {"h.0.attention", "h.0.mlp"}) {
    const UnitCost &a = unit_named(*one, name), &b = unit_named(*five, name);
    EXPECT_NEAR((b.forward.breakdown.memory - a.forward.breakdown.memory).base(), 4 * 10 * kReplicated / kBytesPerSecond, 1e-7);
    EXPECT_NEAR((b.input_gradient.breakdown.memory - a.input_gradient.breakdown.memory).base(),
                4 * 16 * kReplicated / kBytesPerSecond, 1e-7);
    EXPECT_EQ(a.weight_gradient.breakdown.memory, b.weight_gradient.breakdown.memory);
    EXPECT_EQ(a.forward.breakdown.compute, b.forward.breakdown.compute);
  }
}

TEST(ReplicatedFactor, IsTheElementwiseFactorUnlessStated) {
  const auto both = with(line("elementwise_factor", "3")),
             stated = with(line("elementwise_factor", "3") + line("replicated_factor", "3"));
  for (std::size_t u = 0; u < both->cost().units.size(); ++u) {
    EXPECT_EQ(both->cost().units[u].forward.breakdown.total, stated->cost().units[u].forward.breakdown.total);
    EXPECT_EQ(both->cost().units[u].input_gradient.breakdown.total, stated->cost().units[u].input_gradient.breakdown.total);
  }
}

TEST(Residual, IsAddedBeforeTheReductionWhereTheFrameworkDoesSo) {
  const auto after = with(""), before = with(line("residual_before_reduction", "true"));
  for (const char* name : {"h.0.attention", "h.0.mlp"}) {
    EXPECT_EQ(kinds(unit_named(*after, name).forward), "cAc");
    EXPECT_EQ(kinds(unit_named(*before, name).forward), "cA");
    EXPECT_NEAR(unit_named(*after, name).forward.breakdown.total.base(), unit_named(*before, name).forward.breakdown.total.base(),
                1e-12);
  }
}

// Row-parallel gradients before the all-reduce, column-parallel ones during it. Attention: the query, key and value matrices are
// hidden x (heads + 2 kv) x 128, the output one hidden x hidden: 1.5 : 1. MLP: gate and up against down, 2 : 1.
TEST(FullBackward, HidesTheReductionBehindColumnParallelWeightGradients) {
  const auto made = with(line("overlap_tensor_collectives", "true"));
  for (const auto& [name, share] : {std::pair("h.0.attention", 1.5 / 2.5), std::pair("h.0.mlp", 2.0 / 3.0)}) {
    const UnitCost& unit = unit_named(*made, name);
    ASSERT_TRUE(unit.backward);
    EXPECT_EQ(kinds(*unit.backward), "cwcHwc") << name;
    EXPECT_EQ(kinds(unit.input_gradient), "cHc") << name;
    double weight = 0, computing = 0, alone = 0;
    for (const Piece& piece : unit.backward->pieces)
      (piece.weight ? weight : computing) += piece.collective ? 0 : piece.time.base();
    for (const Piece& piece : unit.input_gradient.pieces) alone += piece.collective ? 0 : piece.time.base();
    EXPECT_NEAR(weight, unit.weight_gradient.breakdown.total.base(), 1e-12);
    EXPECT_NEAR(computing, alone, 1e-12);
    const double overlapped = unit.backward->pieces[4].time.base();
    EXPECT_NEAR(overlapped / weight, share, 0.02) << name;  // kernel gaps shift it a little
    EXPECT_EQ(unit.backward->host.launches, unit.input_gradient.host.launches + unit.weight_gradient.host.launches);
  }
  EXPECT_FALSE(unit_named(*with(""), "h.0.mlp").backward) << "without overlap the sum of both gradients does";
}

// The MLP's forward under sequence parallelism: the norm, the gather, gate and up and their activation, down, the scatter, the
// sum. In four chunks three parts of the gather stand before chunks of gate and up, and a part of the scatter behind each of
// down's.
TEST(TensorChunks, CutCollectivesAndTheirProducts) {
  const auto whole = with("", true), four = with(line("tensor_chunks", "4"), true),
             ranks = with(line("tensor_chunks", "0"), true);
  const PassCost &one = unit_named(*whole, "h.0.mlp").forward, &cut = unit_named(*four, "h.0.mlp").forward;
  EXPECT_EQ(kinds(one), "cAcAc");
  EXPECT_EQ(kinds(cut),
            "cAcAcAcc"
            "c"
            "cAcAcAcA"
            "c");
  EXPECT_EQ(kinds(unit_named(*ranks, "h.0.mlp").forward), "cAccccAcAc");  // as many as tensor-parallel ranks: two
  const auto sum_of = [](const PassCost& pass, bool collectives) {
    double sum = 0;
    for (const Piece& piece : pass.pieces) sum += piece.collective == collectives ? piece.time.base() : 0;
    return sum;
  };
  for (const bool collectives : {false, true}) EXPECT_NEAR(sum_of(cut, collectives), sum_of(one, collectives), 1e-12);
  // p and c of gate and up with the gather, then of down with the scatter.
  const auto part = [&](std::size_t i) { return cut.pieces[i].time.base(); };
  const double gate = part(2), gather = part(1), down = part(9), scatter = part(10);
  EXPECT_NEAR(gather * 3, one.pieces[1].time.base(), 1e-12);
  EXPECT_NEAR(scatter * 4, one.pieces[3].time.base(), 1e-12);
  const double exposed = 3 * std::max(0.0, gather - gate) + 3 * std::max(0.0, scatter - down) + scatter;
  EXPECT_NEAR(cut.breakdown.communication.base(), exposed, 1e-12);
  EXPECT_NEAR((one.breakdown.total - cut.breakdown.total).base(), one.breakdown.communication.base() - exposed, 1e-12);
}

// Without sequence parallelism there are all-reduces alone, which nobody cuts.
TEST(TensorChunks, LeaveAllReducesWhole) {
  const auto whole = with(""), cut = with(line("tensor_chunks", "4"));
  for (const UnitCost& unit : cut->cost().units) {
    const UnitCost& other = unit_named(*whole, unit.name);
    EXPECT_EQ(unit.forward.breakdown.total, other.forward.breakdown.total) << unit.name;
    EXPECT_EQ(unit.input_gradient.breakdown.total, other.input_gradient.breakdown.total) << unit.name;
  }
}

// Norm input and output of a unit are replicated (2 x 2 bytes an element); gate, up and their product are not (3 x 2 bytes an
// element of ffn / t; the activation's result is made again).
TEST(SavedFactors, CountCopiesOutsideAndInsideTheParallelRegion) {
  const auto saved = [](const Made& made) { return static_cast<double>(unit_named(made, "h.1.mlp").saved.base()); };
  const auto one = with(""), outside = with(line("replicated_saved_factor", "2.5")),
             inside = with(line("sharded_saved_factor", "2"));
  EXPECT_NEAR(saved(*outside) - saved(*one), 1.5 * 4 * kReplicated, 1);
  EXPECT_NEAR(saved(*inside) - saved(*one), 6 * kTokens * kFfn / kTensor, 1);
}

TEST(Released, AStatedShareLeavesTheRestToTheWeightGradient) {
  const auto made = with(line("released_by_input_gradient", "0.1"));
  for (const UnitCost& unit : made->cost().units)
    EXPECT_NEAR(static_cast<double>(unit.kept_for_weight.base()), 0.9 * static_cast<double>(unit.saved.base()), 1) << unit.name;
}

}  // namespace
}  // namespace panpipe
