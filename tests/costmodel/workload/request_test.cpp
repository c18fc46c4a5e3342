// `workload:` of a scenario: what is read, what is derived, what is refused, word for word.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

WorkloadRequest read(const std::string& flow, ReadLog& log) {
  const NodePtr document = parse_document("workload: " + flow + "\n", "test.yaml", data_directory());
  const WorkloadRequest request = read_workload(*document->find("workload"), log);
  log.throw_if_errors();
  return request;
}

WorkloadRequest read(const std::string& flow) {
  ReadLog log;
  return read(flow, log);
}

std::string fault(const std::string& flow) {
  return test::fault_of([&] { read(flow); });
}

TEST(Request, ABuiltInModelWithItsDefaults) {
  ReadLog log;
  const WorkloadRequest request = read("{model: gpt2-large, sequence: 512}", log);
  EXPECT_EQ(request.model, "gpt2-large");
  EXPECT_EQ(request.sequence, 512);
  EXPECT_EQ(request.layers, 0);
  bool layers = false;
  for (const ResolvedValue& value : log.resolved_values())
    if (value.path == "workload.layers") {
      layers = true;
      EXPECT_EQ(value.value, "36");
      EXPECT_EQ(value.origin, "derived: model gpt2-large");
    }
  EXPECT_TRUE(layers);
}

TEST(Request, LayersIsACountWithAModelAndAFileWithout) {
  EXPECT_EQ(read("{model: gpt, layers: 24, hidden: 128, heads: 4}").layers, 24);
  const WorkloadRequest table = read("{layers: workloads/six-layers-with-skip.yaml}");
  EXPECT_EQ(table.layers, 0);
  EXPECT_EQ(table.layers_file, data_directory() + "/workloads/six-layers-with-skip.yaml");
  const Workload workload = make_workload(table, {});
  ASSERT_TRUE(workload.layers);
  EXPECT_EQ(workload.layers->layers.size(), 6U);
  EXPECT_FALSE(workload.graph);
}

TEST(Request, DimensionsReachTheGraph) {
  const WorkloadRequest request = read(
      "{model: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, vocabulary: 100, sequence: 16, "
      "tied_embedding: true, dropout: 0.1}");
  const Workload workload = make_workload(request, {.degrees = {.micro = 3}});
  // V h (tied) + L (2 h^2 + 2 h (h/2) + 3 h f + 2 h) + h
  EXPECT_EQ(workload.parameters, 100 * 64 + 2 * (3 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 64);
  EXPECT_EQ(workload.graph->tensors[workload.graph->inputs[0]].shape, (Shape{3, 16}));
  int dropouts = 0;
  for (const Operator& op : workload.graph->operators) dropouts += op.target == "aten::dropout";
  EXPECT_EQ(dropouts, 4);
}

TEST(Request, WrongInputsAreExplained) {
  EXPECT_EQ(fault("{model: gpt2-lagre}"),
            "test.yaml:1:19: error: unknown model 'gpt2-lagre', did you mean 'gpt2-large'?\n"
            "  at workload.model\n"
            "    1 | workload: {model: gpt2-lagre}\n"
            "      |                   ^\n"
            "  help: the models are gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt3-125m, gpt3-350m, gpt3-760m, gpt3-1.3b, "
            "gpt3-2.7b, gpt3-6.7b, gpt3-13b, gpt3-175b, gpt, llama2-7b, llama2-13b, llama2-70b, llama, "
            "bert-base, bert-large, bert, vit-l-16, vit-h-14, vit-g-14, vit, mllm-14.9b, mllm-28.8b, mllm-30.3b, mllm, "
            "sdxl-unet, unet");
  EXPECT_EQ(fault("{}"),
            "test.yaml:1:11: error: the workload names no model\n"
            "  at workload\n"
            "    1 | workload: {}\n"
            "      |           ^\n"
            "  help: write {model: gpt2-large}, {config: FILE} for a model's config.json, {layers: FILE} for measured layers, or "
            "{pt2: FILE} for an exported model");
  EXPECT_EQ(fault("{layers: 12}"),
            "test.yaml:1:20: error: 12 layers of which model? 'model' is missing\n"
            "  at workload.layers\n"
            "    1 | workload: {layers: 12}\n"
            "      |                    ^");
  EXPECT_EQ(fault("{model: gpt2, layers: table.yaml}"),
            "test.yaml:1:33: error: 'table.yaml' is not a number of layers\n"
            "  at workload.layers\n"
            "    1 | workload: {model: gpt2, layers: table.yaml}\n"
            "      |                                 ^\n"
            "  help: with a model 'layers' is a count; a file of measured layers takes no 'model'");
  EXPECT_EQ(fault("{model: gpt2, pt2: model.pt2}"),
            "test.yaml:1:25: error: 'pt2' and 'model' exclude each other\n"
            "  at workload.pt2\n"
            "    1 | workload: {model: gpt2, pt2: model.pt2}\n"
            "      |                         ^");
  EXPECT_EQ(fault("{model: gpt2, kv_heads: 4}"),
            "test.yaml:1:25: error: the model 'gpt2' has no 'kv_heads'\n"
            "  at workload.kv_heads\n"
            "    1 | workload: {model: gpt2, kv_heads: 4}\n"
            "      |                         ^");
  EXPECT_EQ(fault("{model: gpt2, sequense: 4}"),
            "test.yaml:1:25: error: unknown key 'sequense', did you mean 'sequence'?\n"
            "  at workload.sequense\n"
            "    1 | workload: {model: gpt2, sequense: 4}\n"
            "      |                         ^");
  EXPECT_EQ(fault("{model: gpt2, heads: 5}"),
            "test.yaml:1:11: error: 5 heads do not divide the hidden size 768 of gpt2\n"
            "  at workload\n"
            "    1 | workload: {model: gpt2, heads: 5}\n"
            "      |           ^");
  EXPECT_EQ(fault("{model: gpt, layers: 12, hidden: 96}"),
            "test.yaml:1:11: error: the model 'gpt' needs 'heads'\n"
            "  at workload\n"
            "    1 | workload: {model: gpt, layers: 12, hidden: 96}\n"
            "      |           ^");
  EXPECT_EQ(fault("{model: gpt2, layers: 0}"),
            "test.yaml:1:33: error: '0' must be at least 1\n"
            "  at workload.layers\n"
            "    1 | workload: {model: gpt2, layers: 0}\n"
            "      |                                 ^");
  EXPECT_EQ(fault("{model: gpt2, sequence: 1.5}"),
            "test.yaml:1:35: error: '1.5' is not a whole number\n"
            "  at workload.sequence\n"
            "    1 | workload: {model: gpt2, sequence: 1.5}\n"
            "      |                                   ^");
  EXPECT_EQ(fault("{model: gpt2, dropout: 1}"),
            "test.yaml:1:34: error: a dropout of 1 leaves nothing\n"
            "  at workload.dropout\n"
            "    1 | workload: {model: gpt2, dropout: 1}\n"
            "      |                                  ^");
  EXPECT_EQ(fault("{model: llama2-7b, kv_heads: 3}"),
            "test.yaml:1:11: error: 3 key-value heads do not divide the 32 heads of llama2-7b\n"
            "  at workload\n"
            "    1 | workload: {model: llama2-7b, kv_heads: 3}\n"
            "      |           ^");
  EXPECT_EQ(fault("{model: vit-l-16, patch: 15}"),
            "test.yaml:1:11: error: patches of 15 pixels do not divide the 224 pixels of vit-l-16\n"
            "  at workload\n"
            "    1 | workload: {model: vit-l-16, patch: 15}\n"
            "      |           ^");
  EXPECT_EQ(fault("{model: unet, layers: 2, hidden: 48}"),
            "test.yaml:1:11: error: the hidden size 48 of unet is no multiple of the 32 normalization groups\n"
            "  at workload\n"
            "    1 | workload: {model: unet, layers: 2, hidden: 48}\n"
            "      |           ^");
  EXPECT_EQ(fault("{model: gpt, layers: 2, hidden: 2000000000, heads: 1}"),
            "test.yaml:1:11: error: 'hidden' of gpt is 2000000000, more than 1048576\n"
            "  at workload\n"
            "    1 | workload: {model: gpt, layers: 2, hidden: 2000000000, heads: 1}\n"
            "      |           ^");
  EXPECT_EQ(fault("{model: gpt2, dropout: -0.1}"),
            "test.yaml:1:34: error: '-0.1' must not be negative\n"
            "  at workload.dropout\n"
            "    1 | workload: {model: gpt2, dropout: -0.1}\n"
            "      |                                  ^");
  EXPECT_EQ(fault("gpt2"),
            "test.yaml:1:11: error: expected a map ('key: value'), found 'gpt2'\n"
            "  at workload\n"
            "    1 | workload: gpt2\n"
            "      |           ^");
}

TEST(Request, AnArchiveThatIsNotThereIsNamed) {
  WorkloadRequest request;
  request.pt2_file = "model.pt2";
  EXPECT_EQ(test::fault_of([&] { make_workload(request, {}); }), "error: model.pt2: the file cannot be read");
}

}  // namespace
}  // namespace panpipe
