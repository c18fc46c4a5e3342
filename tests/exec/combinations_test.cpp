// A table of features that work alone: each cell is one value per dimension, and either equals one process in its loss and in
// every gradient (fp32) or is refused in the words of `refusals` below, which docs/models/combinations.md lists.
//
// Here run, for every kind of attention, cells that contain every pair of values of the other dimensions. All cells:
// PANPIPE_COMBINATIONS=all build/release/bin/test_combinations (CONTRIBUTING.md).
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "tests/exec/training_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::exec {
namespace {

using testing::HasSubstr;

enum Dimension : std::uint8_t { kAttention, kSequence, kRecompute, kZero, kTied, kData, kPipeline, kDimensions };
using Cell = std::array<std::size_t, kDimensions>;  // a value's number per dimension

const std::array<std::vector<std::string>, kDimensions>& values() {
  static const std::array<std::vector<std::string>, kDimensions> all = {
      {{"full", "windowed", "capped", "alibi", "latent", "grouped", "sinks"},
       {"whole", "slices", "ring", "all-gather", "ulysses"},
       {"none", "full", "selective", "every", "first", "chunk", "modules", "operators"},
       {"0", "1", "2", "3"},
       {"untied", "tied"},
       {"1", "2"},
       {"1", "2"}}};
  return all;
}

const std::string& value(const Cell& cell, Dimension dimension) { return values()[dimension][cell[dimension]]; }

std::string name_of(const Cell& cell) {
  return fmt::format("{} attention, {} sequences, recompute {}, zero {}, {}, data {}, pipeline {}", value(cell, kAttention),
                     value(cell, kSequence), value(cell, kRecompute), value(cell, kZero), value(cell, kTied), value(cell, kData),
                     value(cell, kPipeline));
}

bool shares_sequences(const Cell& cell) { return value(cell, kSequence) != "whole" && value(cell, kSequence) != "slices"; }
bool has_replicas(const Cell& cell) { return value(cell, kData) == "2" || shares_sequences(cell); }

struct Refusal {
  std::string message;
  bool (*holds)(const Cell&);
};

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> all = {
      {"ZeRO 3 gathers parameters block by block, and would gather those of blocks that are made again together twice",
       [](const Cell& cell) { return value(cell, kRecompute) == "chunk" && value(cell, kZero) == "3" && has_replicas(cell); }}};
  return all;
}

const Refusal* refusal_of(const Cell& cell) {
  const auto found = std::find_if(refusals().begin(), refusals().end(), [&](const Refusal& one) { return one.holds(cell); });
  return found == refusals().end() ? nullptr : &*found;
}

// A config.json of four layers.
std::string config_of(const Cell& cell) {
  const std::string& attention = value(cell, kAttention);
  const std::map<std::string, std::string> own = {
      {"full", "llama"},
      {"windowed", "gemma3_text, sliding_window: 5, sliding_window_pattern: 2, head_dim: 8"},
      {"capped", "gemma2, sliding_window: 5, head_dim: 8, attn_logit_softcapping: 0.5"},
      {"alibi", "bloom"},
      {"latent",
       "deepseek_v3, num_experts_per_tok: 2, n_routed_experts: 4, q_lora_rank: 16, kv_lora_rank: 8, qk_nope_head_dim: 8, "
       "qk_rope_head_dim: 4, v_head_dim: 6, moe_intermediate_size: 16, first_k_dense_replace: 1"},
      {"grouped", "qwen3, num_key_value_heads: 2, head_dim: 8"},
      {"sinks", "gpt_oss, sliding_window: 5, num_key_value_heads: 2, head_dim: 8, num_local_experts: 4, num_experts_per_tok: 2"}};
  return fmt::format(
      "{{model_type: {}, hidden_size: 16, num_hidden_layers: 4, num_attention_heads: 4, intermediate_size: 24, vocab_size: 48, "
      "max_position_embeddings: 16, tie_word_embeddings: {}}}",
      own.at(attention), value(cell, kTied) == "tied");
}

std::string recompute_of(const Cell& cell) {
  const std::string &mode = value(cell, kRecompute), &attention = value(cell, kAttention);
  if (mode == "every" || mode == "chunk") return fmt::format("{{{}: 2}}", mode);
  // Of whole blocks, or of operators.
  const char* kinds = value(cell, kData) == "2" ? "operators: [norms, elementwise, second-products], " : "";
  if (mode == "first") return fmt::format("{{{}first: {}}}", kinds, value(cell, kPipeline) == "2" ? "[2, 1]" : "1");
  if (mode == "operators") return "{operators: [attention, norms, elementwise, products]}";
  if (mode != "modules") return mode;
  const std::string mlp = attention == "sinks" ? "moe_act" : attention == "latent" ? "moe, mla_up_proj" : "mlp";
  return fmt::format("{{modules: [core_attn, layernorm, {}]}}", mlp);
}

// Four microbatches over all replicas, of sequences longer than the windows.
std::string scenario_of(const Cell& cell) {
  Mesh mesh{.pipeline = value(cell, kPipeline) == "2" ? 2 : 1, .data = value(cell, kData) == "2" ? 2 : 1};
  mesh.more = ", zero: " + value(cell, kZero);
  if (shares_sequences(cell)) mesh.context = 2, mesh.more += ", context_exchange: " + value(cell, kSequence);
  return scenario_on(
      mesh, fmt::format("config: {}, sequence: 16", config_of(cell)),
      fmt::format("{{micro: 1, microbatches: {}}}", 4 / mesh.data),
      fmt::format("schedule: {}\nrecompute: {}",
                  value(cell, kSequence) == "slices" ? "{name: seq-1f1b, sequence_splits: 2}" : "1f1b", recompute_of(cell)));
}

struct Step {
  std::string error;
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
};

Step step_of(const Cell& cell) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", scenario_of(cell));
  RunRequest request = quiet(file, 1);
  request.dump_gradients = folder.file("gradients.safetensors");
  const Outcome outcome = run_threads(file, request);
  if (!outcome.error().empty()) return {outcome.error(), 0, {}};
  return {"", outcome.losses().at(0), tensors_of(request.dump_gradients)};
}

const Step& in_one_process(const Cell& cell) {
  static std::map<std::pair<std::size_t, std::size_t>, Step> known;
  const auto [found, first] = known.try_emplace({cell[kAttention], cell[kTied]});
  if (first) found->second = step_of({cell[kAttention], 0, 0, 0, cell[kTied], 0, 0});
  return found->second;
}

// Nothing if they are equal to 1e-5 of a gradient's largest value. A gradient of rounding errors alone is held against the
// largest of all.
std::optional<std::string> difference(const Step& one, const Step& other) {
  if (!other.error.empty()) return other.error;
  if (std::abs(one.loss - other.loss) > 1e-5 * one.loss) return fmt::format("loss {} instead of {}", other.loss, one.loss);
  if (one.gradients.size() != other.gradients.size()) return "other parameters";
  double largest = 0;
  for (const auto& [name, gradient] : one.gradients) largest = std::max(largest, gradient.abs().max().item<double>());
  for (const auto& [name, gradient] : one.gradients) {
    const auto found = other.gradients.find(name);
    if (found == other.gradients.end() || found->second.sizes() != gradient.sizes()) return name + " is another parameter";
    const double off = at::sub(found->second, gradient).abs().max().item<double>();
    const double scale = std::max(gradient.abs().max().item<double>(), 1e-3 * largest);
    if (!(off <= 1e-5 * scale + 1e-9)) return fmt::format("gradient of {} off by {:.2g} of its largest value", name, off / scale);
  }
  return std::nullopt;
}

std::vector<Cell> all_cells(std::size_t attention) {
  std::vector<Cell> cells = {{attention}};
  for (std::size_t dimension = kAttention + 1; dimension < kDimensions; ++dimension) {
    std::vector<Cell> longer;
    for (Cell cell : cells)
      for (cell[dimension] = 0; cell[dimension] < values()[dimension].size(); ++cell[dimension]) longer.push_back(cell);
    cells = std::move(longer);
  }
  return cells;
}

// Some of the cells, which contain each pair of values that any of them contains: always the one with the most new pairs. Which
// of equally good ones differs from attention to attention, so that all of them together contain many larger combinations.
std::vector<Cell> with_every_pair(const std::vector<Cell>& cells) {
  using Pair = std::array<std::size_t, 4>;
  const auto for_each_pair = [](const Cell& cell, auto visit) {
    for (std::size_t a = kAttention + 1; a < kDimensions; ++a)
      for (std::size_t b = a + 1; b < kDimensions; ++b) visit(Pair{a, cell[a], b, cell[b]});
  };
  std::set<Pair> missing;
  for (const Cell& cell : cells) for_each_pair(cell, [&](const Pair& pair) { missing.insert(pair); });
  std::vector<Cell> chosen;
  while (!missing.empty()) {
    std::size_t best = 0, most = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::size_t at =
          (i * 769 + chosen.size() * 101 + cells.front()[kAttention] * 577) % cells.size();  // 769 divides none
      std::size_t found = 0;
      for_each_pair(cells[at], [&](const Pair& pair) { found += missing.count(pair); });
      if (found > most) best = at, most = found;
    }
    chosen.push_back(cells[best]);
    for_each_pair(chosen.back(), [&](const Pair& pair) { missing.erase(pair); });
  }
  return chosen;
}

class Combinations : public testing::TestWithParam<std::size_t> {};

TEST_P(Combinations, EqualOneProcessOrAreRefused) {
  const char* asked = std::getenv("PANPIPE_COMBINATIONS");
  const bool all = asked != nullptr && std::string_view(asked) == "all";
  const std::vector<Cell> cells = all ? all_cells(GetParam()) : with_every_pair(all_cells(GetParam()));
  std::size_t equal = 0, refused = 0;
  for (const Cell& cell : cells) {
    const Step step = step_of(cell);
    if (const Refusal* refusal = refusal_of(cell)) {
      EXPECT_THAT(step.error, HasSubstr(refusal->message)) << name_of(cell) << ": " << step.error;
      ++refused;
      continue;
    }
    const auto off = difference(in_one_process(cell), step);
    EXPECT_FALSE(off) << name_of(cell) << ": " << *off;
    equal += !off;
  }
  std::cout << fmt::format("{} attention: {} cells, {} equal, {} refused\n", values()[kAttention][GetParam()], cells.size(),
                           equal, refused);
  EXPECT_GE(cells.size(), 40U) << "five ways of a sequence times eight of recompute";
}

INSTANTIATE_TEST_SUITE_P(Attentions, Combinations, testing::Range<std::size_t>(0, values()[kAttention].size()),
                         [](const auto& attention) { return values()[kAttention][attention.param]; });

// The reference is no trivial one: gradients flow, and tied or not, full or windowed, the models differ.
TEST(CombinationsReference, TakesPartWithEveryParameter) {
  std::set<double> losses;
  for (std::size_t attention = 0; attention < values()[kAttention].size(); ++attention)
    for (const std::size_t tied : {0U, 1U}) {
      const Step& one = in_one_process({attention, 0, 0, 0, tied, 0, 0});
      ASSERT_EQ(one.error, "");
      losses.insert(one.loss);
      for (const auto& [name, gradient] : one.gradients) EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
    }
  EXPECT_EQ(losses.size(), 2 * values()[kAttention].size());
}

// docs/models/combinations.md states the dimensions, how many cells there are, and each refusal with its message.
TEST(CombinationsPage, StatesWhatIsRefused) {
  const std::string page = test::read_file(PANPIPE_SOURCE "/docs/models/combinations.md");
  std::size_t cells = 0;
  std::map<const Refusal*, std::size_t> refused;
  for (std::size_t attention = 0; attention < values()[kAttention].size(); ++attention)
    for (const Cell& cell : all_cells(attention)) {
      ++cells;
      ++refused[refusal_of(cell)];
    }
  const std::size_t equal = refused[nullptr];
  EXPECT_THAT(page, HasSubstr(fmt::format("| cells | {} |\n| equal to one process | {} |\n| refused | {} |\n", cells, equal,
                                          cells - equal)))
      << cells << " " << equal;
  EXPECT_GE(static_cast<double>(equal), 0.9 * static_cast<double>(cells));
  for (const auto& dimension : values()) EXPECT_THAT(page, HasSubstr(fmt::format("| {} |\n", fmt::join(dimension, ", "))));
  std::size_t rows = 0;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) rows += line.find("| \"") == 0;
  EXPECT_EQ(rows, refusals().size()) << "a row per refusal";
  for (const Refusal& one : refusals())
    EXPECT_THAT(page, HasSubstr(fmt::format("| \"{}\" | {} |", one.message, refused[&one]))) << one.message;
}

}  // namespace
}  // namespace panpipe::exec
