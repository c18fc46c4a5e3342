// Built-in models that begin with weights which Hugging Face's classes wrote (tests/exec/published_weights/write.py).
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>
#include <tuple>
#include <vector>

#include "tests/exec/training_fixture.hpp"
#include "tests/texts.hpp"

namespace panpipe::exec {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

namespace fs = std::filesystem;

const std::string kFolders = PANPIPE_SOURCE "/tests/exec/published_weights/";

struct Model {
  std::string keys;  // of the workload, before `weights`
  double loss;       // as write.py printed it
};

const Model kGpt = {"model: gpt, layers: 2, hidden: 16, heads: 2, sequence: 8, vocabulary: 48", 4.4840755};
const Model kLlama = {"model: llama, layers: 2, hidden: 16, heads: 4, kv_heads: 2, ffn: 32, sequence: 8, vocabulary: 48",
                      5.0095901};
const Model kTied = {kLlama.keys + ", tied_embedding: true", 4.7409377};

// Steps of the two samples of write.py, each twice.
std::string scenario_of(const std::string& workload, int pipeline, int data, int tensor, const std::string& extra,
                        int expert = 1) {
  return fmt::format(
      "panpipe: 1\ncluster: {{devices: {}, memory: 4 GiB, link: {{latency: 1 us, bandwidth: 10 GB/s}}}}\n"
      "workload: {{{}}}\nbatch: {{micro: 1, microbatches: {}}}\nparallel: {{pipeline: {}, data: {}, tensor: {}, expert: {}}}\n"
      "data: {{tokens: tokens}}\n{}",
      pipeline * data * tensor, workload, 4 / data, pipeline, data, tensor, expert, extra);
}

void write_tokens(const Folder& folder) {
  std::string bytes;
  for (int i = 0; i < 17; ++i) bytes += static_cast<char>((i * i + 3 * i) % 48), bytes += '\0';
  folder.write("tokens", bytes);
}

std::string with(const Model& model, const std::string& weights) { return model.keys + ", weights: " + weights; }

std::string exported_keys(const std::string& folder) {
  return fmt::format("config: {0}/config.json, sequence: 8, weights: {0}", folder);
}

void expect_loss(const Folder& folder, const std::string& scenario, double loss) {
  EXPECT_NEAR(losses_of(folder, scenario, 1).at(0), loss, 2e-6 * loss);
}

TEST(PublishedWeights, GiveTheLossThatTheirClassComputes) {
  const Folder folder;
  write_tokens(folder);
  for (const auto& [model, name] : {std::pair(kGpt, "gpt"), {kLlama, "llama"}, {kTied, "tied"}}) {
    for (const auto& [pipeline, data, tensor, extra] : {std::tuple(1, 1, 1, ""),
                                                        {2, 1, 1, ""},
                                                        {1, 2, 1, ""},
                                                        {2, 1, 2, ""},
                                                        {1, 1, 4, ""},
                                                        {2, 1, 1, "schedule: dualpipe\n"},
                                                        {2, 1, 1, "schedule: {name: seq-1f1b, sequence_splits: 4}\n"}}) {
      if (tensor == 4 && std::string(name) == "gpt") continue;  // two heads
      SCOPED_TRACE(fmt::format("{} on {} x {} x {} {}", name, pipeline, data, tensor, extra));
      expect_loss(folder, scenario_of(with(model, kFolders + name), pipeline, data, tensor, extra), model.loss);
    }
  }
}

// As write.py printed them.
struct Losses {
  double first, second;  // the second after a step of SGD with rate 0.05
};

// Classes whose files hold something in a way of their own: rotary positions that are scaled, norms around 0, fused projections
// by head, experts one by one or under other names, a buffer that is trained, positions from the third row; and those with layers
// of their own: states that pass from token to token, short convolutions, further tokens, chosen keys,
// streams side by side. Chunks of three do not
// divide eight tokens.
const std::map<std::string, Losses>& classes() {
  static const std::map<std::string, Losses> losses = {{"bamba", {4.1381168, 3.8963077}},
                                                       {"bloom", {3.8789458, 3.6668873}},
                                                       {"deepseek_v3", {4.5813861, 3.7140465}},
                                                       {"deepseek_v32", {4.8067608, 4.2144032}},
                                                       {"deepseek_v3_mtp", {5.8936911, 4.9494996}},
                                                       {"falcon", {4.5142412, 4.1200790}},
                                                       {"falcon_mamba", {4.0450358, 3.3484945}},
                                                       {"gemma2", {4.6172714, 4.0186939}},
                                                       {"gemma3n_text", {5.1680980, 3.9508445}},
                                                       {"glm_moe_dsa", {4.7245126, 4.1559558}},
                                                       {"gpt_oss", {4.0742702, 3.8394780}},
                                                       {"jamba", {4.0993733, 3.1642871}},
                                                       {"kimi_linear", {5.1444154, 4.0162892}},
                                                       {"lfm2", {4.5420084, 3.6932673}},
                                                       {"lfm2_moe", {4.4137626, 3.8074088}},
                                                       {"llama", {4.9966278, 4.0340881}},
                                                       {"mamba", {4.3812618, 3.8147969}},
                                                       {"mamba2", {4.2114143, 3.5091026}},
                                                       {"minimax", {4.3899984, 3.6109514}},
                                                       {"mixtral", {5.1957035, 4.3512368}},
                                                       {"nemotron_h", {4.7551517, 3.9925234}},
                                                       {"opt", {4.1824160, 3.9464674}},
                                                       {"phi", {4.7746596, 4.3448672}},
                                                       {"qwen2_moe", {4.3527274, 3.9198952}},
                                                       {"qwen3_5_text", {4.7228122, 4.4281101}},
                                                       {"qwen3_next", {4.8586159, 3.4184563}}};
  return losses;
}

std::string class_keys(const std::string& name) {
  return fmt::format("config: {0}classes/{1}/config.json, sequence: 8, weights: {0}classes/{1}", kFolders, name);
}

bool has_experts(const std::string& name) {
  const std::set<std::string> names = {"deepseek_v32", "glm_moe_dsa", "jamba",     "deepseek_v3", "deepseek_v3_mtp",
                                       "gpt_oss",      "kimi_linear", "lfm2_moe",  "minimax",     "mixtral",
                                       "nemotron_h",   "qwen2_moe",   "qwen3_next"};
  return names.count(name) > 0;
}

// One key-value head; a norm over the results of all heads; gates compared with all of a token's.
bool is_not_cut(const std::string& name) { return name == "falcon" || name == "minimax" || name == "gemma3n_text"; }

TEST(PublishedWeights, OfOtherClassesGiveTheirLosses) {
  const Folder folder;
  write_tokens(folder);
  const std::string sgd = "optimizer: {name: sgd, learning_rate: 0.05}\n";
  for (const auto& [name, loss] : classes())
    for (const auto& [pipeline, tensor, extra] :
         {std::tuple(1, 1, ""), {2, 1, "schedule: zb-h1\n"}, {2, 1, "recompute: full\n"}, {1, 2, ""}, {2, 2, ""}}) {
      if (tensor == 2 && is_not_cut(name)) continue;
      SCOPED_TRACE(fmt::format("{} on {} x {} {}", name, pipeline, tensor, extra));
      std::string scenario = scenario_of(class_keys(name), pipeline, 1, tensor, sgd + extra);
      if (pipeline * tensor == 4) scenario.insert(scenario.find("tensor: 2"), "sequence_parallel: true, ");
      const std::vector<double> losses = losses_of(folder, scenario, 2);
      ASSERT_EQ(losses.size(), 2U);
      EXPECT_NEAR(losses[0], loss.first, 2e-6 * loss.first);
      EXPECT_NEAR(losses[1], loss.second, 5e-6 * loss.second);
    }
}

// Published files hold layers that predict further tokens. A model without them leaves them out, as transformers does, which gave
// this loss.
TEST(PublishedWeights, MayHoldFurtherTokensThatTheModelLacks) {
  const Folder folder;
  write_tokens(folder);
  const std::string keys =
      fmt::format("config: {0}deepseek_v3/config.json, sequence: 8, weights: {0}deepseek_v3_mtp", kFolders + "classes/");
  expect_loss(folder, scenario_of(keys, 2, 1, 1, ""), 4.5863962);
}

// A step that changes nothing, then --export: the same names, shapes and values as transformers wrote.
TEST(ModelFolders, HoldWhatTransformersWrites) {
  const Folder folder;
  write_tokens(folder);
  std::vector<std::tuple<std::string, double, int>> runs;  // class, loss, ranks that share out the experts
  for (const auto& [name, loss] : classes()) {
    runs.emplace_back(name, loss.first, 1);
    if (has_experts(name)) runs.emplace_back(name, loss.first, 2);
  }
  for (const auto& [name, loss, expert] : runs) {
    SCOPED_TRACE(fmt::format("{} over {} expert ranks", name, expert));
    const std::string out = folder.file(fmt::format("export-{}-{}", name, expert));
    const bool divided = expert == 1 && (name == "falcon" || name == "mixtral");  // each rank reads and writes a part
    const int degree = divided || expert > 1 || is_not_cut(name) ? 1 : 2;
    std::string text =
        scenario_of(class_keys(name), 2, divided ? 2 : expert, degree, "optimizer: {name: sgd, learning_rate: 0}\n", expert);
    if (divided) text.insert(text.find("tensor: 1"), "zero: 3, ");
    const std::string file = folder.write("s.yaml", text);
    RunRequest request = quiet(file, 1);
    request.export_folder = out;
    const Outcome outcome = run_threads(file, request);
    ASSERT_EQ(outcome.error(), "");
    std::map<std::string, at::Tensor> written;
    for (const auto& entry : fs::directory_iterator(out))
      if (entry.path().extension() == ".safetensors")
        for (const auto& [tensor, value] : tensors_of(entry.path())) written[tensor] = value;
    const auto wanted = tensors_of(kFolders + "classes/" + name + "/model.safetensors");
    std::size_t tables = 0;
    for (const auto& [tensor, value] : wanted) {
      if (tensor.ends_with("_decay") || tensor.ends_with(".slope_rate")) {  // MiniMax: from_pretrained makes them itself
        ++tables;
        continue;
      }
      ASSERT_EQ(written.count(tensor), 1u) << tensor;
      EXPECT_TRUE(at::equal(written[tensor], value)) << tensor;
    }
    EXPECT_EQ(written.size(), wanted.size() - tables);
    EXPECT_TRUE(fs::exists(out + "/model.safetensors.index.json"));
    // And back: the configuration that was written describes the weights next to it.
    expect_loss(folder, scenario_of(exported_keys(out), 1, 1, 1, ""), loss);
  }
}

// The class's default is 8 groups of experts, of which a token's lie in 4. Training chose from all, and the export states that:
// with it, a step of rate 0 from the exported weights has the loss of the step before.
TEST(ModelFolders, ReportThatExpertsWereChosenFromAllGroups) {
  const Folder folder;
  write_tokens(folder);
  const std::string published = content(kFolders + "classes/deepseek_v3/config.json");
  for (const auto& [groups, of_them] : {std::pair("", ""), {"\"n_group\": 4,", "\"topk_group\": 2,"}}) {
    SCOPED_TRACE(groups);
    std::string config = published;
    const auto replace = [&](const std::string& old, const std::string& by) { config.replace(config.find(old), old.size(), by); };
    replace("\"n_group\": 1,", groups);
    replace("\"topk_group\": 1,", of_them);
    const std::string keys = fmt::format("config: {}, sequence: 8", folder.write("config.json", config));
    const std::string file = folder.write("s.yaml", scenario_of(keys, 1, 1, 1, "optimizer: {name: sgd, learning_rate: 0}\n"));
    RunRequest request = quiet(file, 1);
    request.export_folder = folder.file(std::string("export") + (*groups ? "4" : ""));
    const Outcome first = run_threads(file, request);
    ASSERT_EQ(first.error(), "");
    const auto written = nlohmann::json::parse(content(request.export_folder + "/config.json"));
    EXPECT_EQ(written.at("n_group"), 1);
    EXPECT_EQ(written.at("topk_group"), 1);
    expect_loss(folder, scenario_of(exported_keys(request.export_folder), 1, 1, 1, ""), first.losses()[0]);
  }
}

// Experts shared out over two of two, and over two of four replicas: each token goes to those that transformers chooses.
TEST(PublishedWeights, GiveTheLossWithTheirExpertsOverRanks) {
  const Folder folder;
  write_tokens(folder);
  for (const auto& [name, loss] : classes()) {
    if (!has_experts(name)) continue;
    for (const int data : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} over {} replicas", name, data));
      expect_loss(folder, scenario_of(class_keys(name), 1, data, 1, "", 2), loss.first);
    }
  }
}

// The families gpt and llama have no config.json to copy: one is made.
TEST(ModelFolders, OfBuiltInFamiliesGetAConfiguration) {
  const Folder folder;
  write_tokens(folder);
  for (const auto& [model, name] : {std::pair(kGpt, "gpt"), {kLlama, "llama"}, {kTied, "tied"}}) {
    SCOPED_TRACE(name);
    const std::string out = folder.file(std::string("export-") + name);
    const std::string file =
        folder.write("s.yaml", scenario_of(with(model, kFolders + name), 1, 1, 1, "optimizer: {name: sgd, learning_rate: 0}\n"));
    RunRequest request = quiet(file, 1);
    request.export_folder = out;
    ASSERT_EQ(run_threads(file, request).error(), "");
    EXPECT_TRUE(fs::exists(out + "/model.safetensors")) << "one file needs no index";
    expect_loss(folder, scenario_of(exported_keys(out), 2, 1, 1, ""), model.loss);
  }
}

TEST(PublishedWeights, OfAClassThatIsBuiltOtherwiseAreRefused) {
  const Folder folder;
  write_tokens(folder);
  const std::string keys =
      "config: {model_type: gpt_oss, num_hidden_layers: 1, hidden_size: 16, vocab_size: 48, num_local_experts: 2, "
      "num_experts_per_tok: 1, intermediate_size: 8, rope_parameters: {rope_type: yarn, factor: 32.0}}, sequence: 8, weights: " +
      kFolders + "gpt";
  EXPECT_THAT(error_of_step(folder, scenario_of(keys, 1, 1, 1, "")),
              testing::HasSubstr("published weights of GptOssForCausalLM would compute something else here: the model leaves out "
                                 "its scaling of rotary positions\n"));
}

// Gemma's norms scale by 1 + w, and PyTorch decays w: a step of SGD is w - rate (g + decay w), so that decay alone leads the
// scale to 1. In two bytes w keeps its own bits, which 1 + w would round away.
TEST(PublishedWeights, NormsAroundZeroDecayToTheScaleOne) {
  const Folder folder;
  write_tokens(folder);
  const auto before = tensors_of(kFolders + "classes/gemma2/model.safetensors");
  const std::string decayed = folder.write(
      "s.yaml", scenario_of(class_keys("gemma2"), 1, 1, 1, "optimizer: {name: sgd, learning_rate: 0.1, weight_decay: 0.1}\n"));
  RunRequest request = with_checkpoints(decayed, 1, folder.file("ck"));
  request.dump_gradients = folder.file("gradients.safetensors");
  ASSERT_EQ(run_threads(decayed, request).error(), "");
  const auto after = tensors_of(step_folder(folder.file("ck"), 1)), gradients = tensors_of(request.dump_gradients);
  int norms = 0;
  for (const auto& [name, w] : before) {
    if (!name.ends_with("norm.weight")) continue;
    ++norms;
    EXPECT_TRUE(at::allclose(after.at(name), w - 0.1 * (gradients.at(name) + 0.1 * w), 0, 1e-6)) << name;
  }
  EXPECT_EQ(norms, 9) << "four a layer, and the last";
  const std::string still =
      folder.write("still.yaml", scenario_of(class_keys("gemma2"), 1, 1, 1, "precision: bf16-pure\noptimizer: none\n"));
  const Outcome outcome = run_threads(still, with_checkpoints(still, 1, folder.file("still")));
  ASSERT_EQ(outcome.error(), "");
  EXPECT_NEAR(outcome.losses()[0], classes().at("gemma2").first, 0.02 * classes().at("gemma2").first);
  for (const auto& [name, value] : tensors_of(step_folder(folder.file("still"), 1))) {
    if (!name.ends_with("norm.weight")) continue;
    EXPECT_TRUE(at::equal(value, before.at(name).to(at::kBFloat16))) << name;
  }
}

// A key that changes what the class computes, or that nobody knows: with weights and without them.
TEST(PublishedWeights, AndTrainingWantAConfigurationThatIsFollowed) {
  const Folder folder;
  write_tokens(folder);
  for (const char* weights : {"", ", weights: "}) {
    const auto fault = [&](const std::string& key) {
      const std::string keys = "config: {model_type: gpt2, n_layer: 2, n_embd: 16, n_head: 2, vocab_size: 48, n_positions: 12" +
                               key + "}, sequence: 8" + weights + (*weights != '\0' ? kFolders + "gpt" : "");
      return error_of_step(folder, scenario_of(keys, 1, 1, 1, ""));
    };
    EXPECT_EQ(fault(", scale_attn_weights: true"), "");
    EXPECT_THAT(fault(", scale_attn_weights: false"),
                testing::HasSubstr("scale_attn_weights: false has no effect here; with it, GPT2LMHeadModel leaves the scores"));
    EXPECT_THAT(fault(", n_iner: 32"), testing::HasSubstr("'n_iner' is no key that is known for GPT2LMHeadModel, did you mean "
                                                          "'n_inner'?"));
  }
}

// In a microbatch's type, with fp32 masters: they hold the file's values.
TEST(PublishedWeights, AreTheMastersOfMixedPrecision) {
  const Folder folder;
  write_tokens(folder);
  const std::string file = folder.write("s.yaml", scenario_of(with(kLlama, kFolders + "llama"), 1, 1, 1,
                                                              "precision: bf16\noptimizer: {name: sgd, learning_rate: 0}\n"));
  const Outcome outcome = run_threads(file, with_checkpoints(file, 1, folder.file("ck")));
  ASSERT_EQ(outcome.error(), "");
  EXPECT_NEAR(outcome.losses()[0], kLlama.loss, 0.02 * kLlama.loss) << "products of eight bits";
  const auto kept = tensors_of(step_folder(folder.file("ck"), 1));
  for (const char* part : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})
    for (const auto& [name, value] : tensors_of(kFolders + "llama/" + part)) EXPECT_TRUE(at::equal(kept.at(name), value)) << name;
}

// Names of the model inside, masks of older files, a head in addition to the embedding it is tied to; a single file, an index, a
// checkpoint.
TEST(PublishedWeights, AreReadInTheirSeveralForms) {
  const Folder folder;
  write_tokens(folder);
  const auto loss = [&](const Model& model, const std::string& weights) {
    const std::string file =
        folder.write("s.yaml", scenario_of(with(model, weights), 1, 1, 1, "optimizer: {name: sgd, learning_rate: 0}\n"));
    const Outcome outcome = run_threads(file, with_checkpoints(file, 1, folder.file("ck")));
    EXPECT_EQ(outcome.error(), "");
    return outcome.losses().empty() ? 0 : outcome.losses()[0];
  };
  const double gpt = loss(kGpt, kFolders + "gpt");
  EXPECT_EQ(loss(kGpt, step_folder(folder.file("ck"), 1)), gpt) << "a checkpoint keeps (out, in)";
  EXPECT_EQ(loss(kGpt, kFolders + "gpt/model.safetensors"), gpt);
  EXPECT_NEAR(loss(kLlama, kFolders + "llama/model.safetensors.index.json"), kLlama.loss, 2e-6 * kLlama.loss);
  NamedTensors inner;
  for (const auto& [name, value] : tensors_of(kFolders + "gpt/model.safetensors")) inner.emplace_back(name.substr(12), value);
  inner.emplace_back("h.0.attn.bias", at::ones({1, 1, 12, 12}));
  inner.emplace_back("lm_head.weight", tensors_of(kFolders + "gpt/model.safetensors").at("transformer.wte.weight"));
  write_safetensors(folder.file("inner.safetensors"), inner);
  EXPECT_EQ(loss(kGpt, "inner.safetensors"), gpt);
}

// Each on the tensors of the GPT or of the tied Llama, changed.
TEST(PublishedWeights, WrongOnesAreRefused) {
  using Tensors = std::map<std::string, at::Tensor>;
  const Folder folder;
  write_tokens(folder);
  fs::create_directories(folder.file("w"));
  const Tensors gpt = tensors_of(kFolders + "gpt/model.safetensors"), tied = tensors_of(kFolders + "tied/model.safetensors");
  const auto refused = [&](const std::string& keys, const Tensors& tensors, const std::string& config = "") {
    write_safetensors(folder.file("w/model.safetensors"), NamedTensors(tensors.begin(), tensors.end()));
    fs::remove(folder.file("w/config.json"));
    if (!config.empty()) folder.write("w/config.json", config);
    const std::string error = error_of_step(folder, scenario_of(keys + ", weights: w", 1, 1, 1, ""));
    const std::string text = test::replaced(error, folder.path().string() + "/", "");
    const auto place = text.find("error: "), end = text.find("\n  at workload.weights\n"), help = text.find("\n  help: ");
    EXPECT_EQ(text.rfind("s.yaml:3:", 0), 0u) << text;
    if (end == std::string::npos) return text;
    return text.substr(place + 7, end - place - 7) + (help == std::string::npos ? "" : " / " + text.substr(help + 9));
  };
  const auto changed = [](Tensors tensors, const std::string& name, const at::Tensor& value) {
    value.defined() ? void(tensors[name] = value) : void(tensors.erase(name));
    return tensors;
  };
  EXPECT_EQ(refused(kGpt.keys, changed(gpt, "transformer.ln_f.bias", {})), "w lacks transformer.ln_f.bias");
  EXPECT_EQ(
      refused(kGpt.keys, changed(gpt, "transformer.h.0.attn.c_attn.weight", at::ones({48, 16}))),
      "'transformer.h.0.attn.c_attn.weight' has shape (48, 16); the model's transformer.h.0.attn.c_attn.weight wants (16, 48) / "
      "give the model the dimensions of the file");
  EXPECT_EQ(refused(kGpt.keys, changed(gpt, "transformer.ln_f.bias", at::ones({16}, at::kLong))),
            "'transformer.ln_f.bias' holds I64; weights are real numbers");
  std::string one_layer = kGpt.keys;
  one_layer.replace(one_layer.find("layers: 2"), 9, "layers: 1");
  EXPECT_EQ(
      refused(one_layer, gpt),
      "w holds transformer.h.1.attn.c_attn.bias, transformer.h.1.attn.c_attn.weight, transformer.h.1.attn.c_proj.bias and 9 "
      "more, which the model does not have / give the model the dimensions of the file");
  EXPECT_EQ(refused(kLlama.keys, tied),
            "w lacks lm_head.weight / a file without a head is of a model that ties it to the embedding: "
            "workload.tied_embedding: true");
  EXPECT_EQ(
      refused(kTied.keys, changed(tied, "lm_head.weight", at::ones({48, 16}, at::kBFloat16))),
      "'model.embed_tokens.weight' and 'lm_head.weight' differ, and the model ties the one to the other / give the model a head "
      "of its own: workload.tied_embedding: false");
  EXPECT_EQ(refused(kLlama.keys, gpt),
            "w lacks model.embed_tokens.weight, model.layers.0.input_layernorm.weight, "
            "model.layers.0.self_attn.q_proj.weight and 18 more / it holds transformer.h.0.attn.c_attn.bias, "
            "transformer.h.0.attn.c_attn.weight, transformer.h.0.attn.c_proj.bias and 25 more, which this model does not have");
  EXPECT_EQ(refused(kTied.keys, tied, R"({"num_attention_heads": 2})"),
            "w/config.json says num_attention_heads 2; the built-in model has 4 heads");
  EXPECT_EQ(refused(kTied.keys, tied, R"({"rms_norm_eps": 1e-6})"),
            "w/config.json says rms_norm_eps 1e-06; the built-in model has 1e-05");
  EXPECT_EQ(refused(kTied.keys, tied, R"({"rope_theta": 500000.0})"),
            "w/config.json says rope_theta 500000.0; the built-in model has 10000");
  EXPECT_EQ(refused(kTied.keys, tied, R"({"rope_parameters": {"rope_theta": 10000, "rope_type": "llama3"}})"),
            "w/config.json says rope_parameters.rope_type \"llama3\"; the built-in model has \"default\"");
  EXPECT_EQ(refused(kTied.keys, tied, R"({"hidden_act": "gelu"})"),
            "w/config.json says hidden_act \"gelu\"; the built-in model has silu");
  write_safetensors(folder.file("w/model.safetensors"), NamedTensors(gpt.begin(), gpt.end()));
  folder.write("w/config.json", R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})");
  EXPECT_THAT(error_of_step(folder, scenario_of(kGpt.keys + ", weights: w", 1, 1, 1, "")),
              testing::HasSubstr("w/config.json:1:24: error: scale_attn_by_inverse_layer_idx: true has no effect here"));
  fs::remove_all(folder.file("w"));
  fs::create_directories(folder.file("w"));
  const auto unreadable = [&](const std::string& weights) {
    return error_of_step(folder, scenario_of(kGpt.keys + ", weights: " + weights, 1, 1, 1, ""));
  };
  EXPECT_THAT(unreadable("w"),
              testing::HasSubstr("/w holds neither model.safetensors nor model.safetensors.index.json, nor a checkpoint\n"));
  folder.write("w/model.safetensors.index.json", R"({"weight_map": {"a": "../b.safetensors"}})");
  EXPECT_THAT(unreadable("w"), testing::HasSubstr("model.safetensors.index.json: 'a' is in no file of the folder\n"));
  folder.write("w/model.safetensors.index.json", "{}");
  EXPECT_THAT(unreadable("w"), testing::HasSubstr("model.safetensors.index.json has no weight_map\n"));
  write_safetensors(folder.file("w/b.safetensors"), NamedTensors{{"b", at::ones({1})}});
  folder.write("w/model.safetensors.index.json", R"({"weight_map": {"a": "b.safetensors"}})");
  EXPECT_THAT(unreadable("w"), testing::HasSubstr("puts 'a' into b.safetensors, which does not hold it\n"));
}

}  // namespace
}  // namespace panpipe::exec
