// Exported models: the values read from an archive; wrong, damaged and hostile archives are refused with a message.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.hpp"
#include "costmodel/workload/archive.hpp"
#include "costmodel/workload/movable_units.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "tests/costmodel/workload/archive_file.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/texts.hpp"

namespace panpipe {
namespace {

using Json = nlohmann::json;

std::string path() { return test::scratch().file("model.pt2"); }

OperatorGraph load(const TinyModel& model, int microbatch = 2) {
  return load_exported(write_file(path(), zip(model.entries())), microbatch);
}

std::string fault_of(const std::string& bytes, int microbatch = 2) {
  // The folder differs from machine to machine.
  return test::replaced(test::fault_of([&] { load_exported(write_file(path(), bytes), microbatch); }), path(), "model.pt2");
}

std::string fault_of(const std::function<void(TinyModel&)>& spoil) {
  TinyModel model;
  spoil(model);
  return fault_of(zip(model.entries()));
}

std::string fault_of_entry(std::size_t index, const std::function<void(ZipEntry&)>& spoil) {
  std::vector<ZipEntry> entries = TinyModel().entries();
  spoil(entries[index]);
  return fault_of(zip(entries));
}

constexpr const char* kAgain = "; export the model again with torch.export.save";

TEST(Archive, BecomesAnOperatorGraph) {
  const OperatorGraph graph = load(TinyModel());
  EXPECT_EQ(graph.to_text(),
            "graph model.pt2 (tensor parallel 1)\n"
            "  parameter %layers.0.weight: float32[4, 3]\n"
            "  parameter %layers.2.weight: float32[5, 4]\n"
            "  input %x: float32[2, 3]\n"
            "unit 0 layers.0\n"
            "  %linear: float32[2, 4] = aten::linear(%x, %layers.0.weight)  # layers.0\n"
            "unit 1 layers.1\n"
            "  %tanh: float32[2, 4] = aten::tanh(%linear)  # layers.1\n"
            "unit 2 layers.2\n"
            "  %linear_1: float32[2, 5] = aten::linear(%tanh, %layers.2.weight)  # layers.2\n"
            "unit 3 model\n"
            "  %mean: float32[] = aten::mean(%linear_1)  # \n"
            "return %mean\n");
  EXPECT_EQ(graph.parameter_count(), 4 * 3 + 5 * 4);
  // 2 rows x (3 x 4 + 4 x 5) products, two operations each, three passes.
  EXPECT_DOUBLE_EQ(model_flops(graph).base(), 3 * 2.0 * 2 * (12 + 20));
  const Tensor& u = graph.tensors[1];
  ASSERT_GE(u.stored, 0);
  const StoredValues& stored = graph.stored[u.stored];
  EXPECT_EQ(stored.bytes, 80);
  std::ifstream file(path(), std::ios::binary);
  file.seekg(stored.offset);
  std::string bytes(80, ' ');
  file.read(bytes.data(), 80);
  EXPECT_EQ(bytes, std::string(80, 'u')) << "the values lie where the graph says";
}

TEST(Archive, NamesOfOnePlaceAreTied) {
  TinyModel model;
  model.weights["config"]["head.weight"] = TinyModel::payload("weight_0", meta({4, 3}, 7, true));
  model.graph()["inputs"].push_back(tensor("p_head"));
  model.graph()["tensor_values"]["p_head"] = meta({4, 3}, 7, true);
  model.program["graph_module"]["signature"]["input_specs"].push_back(
      {{"parameter", {{"arg", {{"name", "p_head"}}}, {"parameter_name", "head.weight"}}}});
  const OperatorGraph graph = load(model);
  ASSERT_EQ(graph.tensors[3].name, "head.weight");
  EXPECT_EQ(graph.tensors[3].tied_to, 0);
  EXPECT_EQ(graph.parameter_count(), 4 * 3 + 5 * 4);
}

TEST(Archive, WhatTheLossDoesNotNeedIsDropped) {
  TinyModel model;
  model.graph()["tensor_values"]["sin"] = meta({2, 5});
  model.nodes().push_back(node("torch.ops.aten.sin.default", {{"self", tensor("linear_1")}}, "sin", "head"));
  EXPECT_EQ(load(model).operators.size(), 4u);
}

TEST(Archive, SymbolsHaveTheValuesOfTheExportedMicrobatch) {
  TinyModel model;
  const Json two = {{"as_expr", {{"expr_str", "Symbol('s0')"}, {"hint", {{"as_int", 2}}}}}};
  for (const char* name : {"x", "linear", "tanh", "linear_1"}) model.graph()["tensor_values"][name]["sizes"][0] = two;
  model.graph()["sym_int_values"]["size"] = two;
  Json size = node("torch.ops.aten.sym_size.int", {{"self", tensor("x")}, {"dim", {{"as_int", 0}}}}, "", "");
  size["outputs"] = Json::array({{{"as_sym_int", {{"as_name", "size"}}}}});
  model.nodes().insert(model.nodes().begin(), size);
  model.nodes().insert(
      model.nodes().begin() + 2,
      node("torch.ops.aten.view.default",
           {{"self", tensor("linear")}, {"size", {{"as_sym_ints", Json::array({{{"as_name", "size"}}, {{"as_int", -1}}})}}}},
           "view", "layers.0"));
  model.graph()["tensor_values"]["view"] = meta({2, 4});
  model.nodes()[3]["inputs"][0]["arg"] = tensor("view");
  const OperatorGraph graph = load(model);
  EXPECT_EQ(graph.tensors[2].shape, (Shape{2, 3}));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(graph.operators[1].arguments[1]), (std::vector<std::int64_t>{2, -1}));
}

TEST(Archive, NoCutBetweenATensorAndWhoWritesIntoIt) {
  TinyModel model;
  model.nodes()[1] = node("torch.ops.aten.tanh_.default", {{"self", tensor("linear")}}, "tanh", "layers.1");
  const OperatorGraph graph = load(model);
  ASSERT_EQ(graph.units.size(), 3u);
  EXPECT_EQ(graph.operators[1].unit, 0) << "the in-place operator stays with the product it overwrites";
  EXPECT_EQ(why_together(graph), (std::vector<std::string>{
                                     "",
                                     "'linear' is written in place by aten::tanh_, and no rank writes into what another one made "
                                     "(operators 0 to 1)",
                                     "", ""}));
  EXPECT_EQ(
      why_no_cut(graph, "layers.1"),
      "no cut may stand in front of 'layers.1' (operator 1, aten::tanh_): it lies inside unit 'layers.0' (operators 0 to 1), "
      "because 'linear' is written in place by aten::tanh_, and no rank writes into what another one made (operators 0 to 1); "
      "cut in front of 'layers.0' or 'layers.2'");
  EXPECT_EQ(why_no_cut(graph, "layers.7"), "");
  EXPECT_EQ(units_table(graph),
            "3 movable units of 4 operators; a cut may stand in front of each but the first\n"
            "    0  layers.0 (block layers.0): operators 0 to 1\n"
            "       not before #1: 'linear' is written in place by aten::tanh_, and no rank writes into what another one made "
            "(operators 0 to 1)\n"
            "    1  layers.2 (block layers.2): operator 2\n"
            "    2  model: operator 3\n");
}

// A view in the same module: the module is the reason, the view is reported too.
TEST(Archive, AModuleThatIsAUnitIsNotCutInside) {
  TinyModel model;
  model.nodes()[1] = node("torch.ops.aten.t.default", {{"self", tensor("linear")}}, "tanh", "layers.0");
  model.nodes()[2] =
      node("torch.ops.aten.mul.Tensor", {{"self", tensor("tanh")}, {"other", tensor("tanh")}}, "linear_1", "layers.0.act");
  const OperatorGraph graph = load(model);
  const std::vector<std::string> reasons = why_together(graph);
  ASSERT_EQ(reasons.size(), 4u);
  EXPECT_EQ(reasons[1],
            "module 'layers.0' holds the operator before it too, and is not cut inside; its result is a view of 'linear' "
            "(operator 0)");
}

TEST(Archive, RegionsAreNotedAtTheirOperators) {
  TinyModel model;
  Json inner;
  inner["inputs"] = Json::array({tensor("a")});
  inner["outputs"] = Json::array({tensor("tanh")});
  inner["nodes"] = Json::array({node("torch.ops.aten.tanh.default", {{"self", tensor("a")}}, "tanh", "layers.1")});
  inner["tensor_values"] = {{"a", meta({2, 4})}, {"tanh", meta({2, 4}, 13)}};
  const auto region = [&](const std::string& target, const std::vector<std::pair<std::string, Json>>& before) {
    auto inputs = before;
    inputs.push_back({"", {{"as_graph", {{"name", "g"}, {"graph", inner}}}}});
    inputs.push_back({"", tensor("linear")});
    return node("torch.ops.higher_order." + target, inputs, "tanh", "");
  };
  model.nodes()[1] = region(
      "wrap_with_autocast",
      {{"", {{"as_string", "cpu"}}}, {"", {{"as_scalar_type", 13}}}, {"", {{"as_bool", true}}}, {"", {{"as_bool", true}}}});
  OperatorGraph graph = load(model);
  ASSERT_TRUE(graph.operators[1].autocast.has_value());
  EXPECT_EQ(graph.operators[1].autocast->dtype, DType::BFloat16);
  EXPECT_TRUE(graph.operators[1].recorded);
  model.nodes()[1] = region("wrap_with_set_grad_enabled", {{"", {{"as_bool", false}}}});
  graph = load(model);
  EXPECT_FALSE(graph.operators[1].recorded);
  EXPECT_FALSE(graph.tensors[graph.operators[1].outputs[0]].requires_gradient);
}

TEST(Archive, DamagedContainersAreRefused) {
  EXPECT_EQ(fault_of(""), "error: model.pt2: this is no .pt2 archive (no ZIP directory); write one with torch.export.save");
  EXPECT_EQ(fault_of("once upon a time"),
            "error: model.pt2: this is no .pt2 archive (no ZIP directory); write one with torch.export.save");
  const std::string whole = zip(TinyModel().entries());
  EXPECT_EQ(fault_of(whole.substr(0, whole.size() / 2)),
            "error: model.pt2: this is no .pt2 archive (no ZIP directory); write one with torch.export.save");
  EXPECT_EQ(fault_of(zip(TinyModel().entries(), 60000)),
            std::string("error: model.pt2: the archive is damaged: its directory ends after 6 of 60000 entries") + kAgain);
  EXPECT_EQ(
      fault_of_entry(0, [](ZipEntry& entry) { entry.method = 8; }),
      std::string("error: model.pt2: the entry 'm/data/weights/weight_0' is compressed (method 8), which PyTorch never does") +
          kAgain);
  EXPECT_EQ(fault_of_entry(0, [](ZipEntry& entry) { entry.flags = 1; }),
            std::string("error: model.pt2: the entry 'm/data/weights/weight_0' is encrypted") + kAgain);
  EXPECT_EQ(fault_of_entry(0, [](ZipEntry& entry) { entry.claimed = 1 << 30; }),
            std::string("error: model.pt2: the archive is damaged: its entry 'm/data/weights/weight_0' lies outside the file") +
                kAgain);
  EXPECT_EQ(fault_of_entry(1, [](ZipEntry& entry) { entry.header = 1 << 30; }),
            std::string("error: model.pt2: the archive is damaged: its entry 'm/data/weights/weight_1' lies outside the file") +
                kAgain);
  EXPECT_EQ(
      fault_of_entry(1, [](ZipEntry& entry) { entry.header = 3; }),
      std::string("error: model.pt2: the archive is damaged: 'm/data/weights/weight_1' is not where it should be") + kAgain);
  EXPECT_EQ(fault_of_entry(4, [](ZipEntry& entry) { entry.checksum_xor = 1; }),
            std::string("error: model.pt2: the archive is damaged: the checksum of 'models/model.json' is wrong") + kAgain);
}

TEST(Archive, NamesThatArePathsAreRefused) {
  EXPECT_EQ(fault_of_entry(0, [](ZipEntry& entry) { entry.name = "m/../../etc/passwd"; }),
            std::string("error: model.pt2: the entry name 'm/../../etc/passwd' is not one that PyTorch writes") + kAgain);
  EXPECT_EQ(fault_of_entry(0, [](ZipEntry& entry) { entry.name = "/etc/passwd"; }),
            std::string("error: model.pt2: the entry name '/etc/passwd' is not one that PyTorch writes") + kAgain);
  EXPECT_EQ(
      fault_of_entry(0, [](ZipEntry& entry) { entry.name = "other/weight_0"; }),
      std::string("error: model.pt2: the entry 'm/data/weights/weight_1' is outside the archive's folder 'other'") + kAgain);
  EXPECT_EQ(fault_of_entry(0, [](ZipEntry& entry) { entry.name = "m/data/weights/weight_1"; }),
            std::string("error: model.pt2: the archive contains 'm/data/weights/weight_1' twice") + kAgain);
  EXPECT_EQ(fault_of_entry(4, [](ZipEntry& entry) { entry.name = "m/models/other.json"; }),
            std::string("error: model.pt2: the archive holds no 'models/model.json'") + kAgain);
}

TEST(Archive, WeightsBeyondTheirEntryAreRefused) {
  EXPECT_EQ(
      fault_of([](TinyModel& m) {
        m.weights["config"]["layers.0.weight"]["tensor_meta"] = meta({4, 4}, 7, true);
      }),
      "error: model.pt2: data/weights/model_weights_config.json: 'layers.0.weight' needs 64 bytes of 'data/weights/weight_0', "
      "which has 48");
  EXPECT_EQ(
      fault_of([](TinyModel& m) { m.weights["config"]["layers.0.weight"]["tensor_meta"]["storage_offset"]["as_int"] = 1; }),
      "error: model.pt2: data/weights/model_weights_config.json: 'layers.0.weight' needs 52 bytes of 'data/weights/weight_0', "
      "which has 48");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.weights["config"]["layers.0.weight"]["tensor_meta"]["sizes"][0]["as_int"] = -4; }),
            "error: model.pt2: data/weights/model_weights_config.json: 'sizes' of 'layers.0.weight' holds -4");
  EXPECT_EQ(fault_of([](TinyModel& m) {
              m.weights["config"]["layers.0.weight"]["tensor_meta"] = meta({1LL << 40, 1LL << 40});
            }),
            "error: model.pt2: data/weights/model_weights_config.json: 'layers.0.weight' has more than 2^48 elements");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.weights["config"]["layers.0.weight"]["path_name"] = "../../weight"; }),
            "error: model.pt2: data/weights/model_weights_config.json: 'layers.0.weight' should be in "
            "'data/weights/../../weight', which the archive does not hold");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.weights["config"].erase("layers.0.weight"); }),
            "error: model.pt2: models/model.json: the values of 'layers.0.weight' are not in the archive");
}

TEST(Archive, WrongProgramsAreRefused) {
  EXPECT_EQ(
      fault_of_entry(4, [](ZipEntry& entry) { entry.bytes = "{\"graph_module\": "; }),
      "model.pt2: models/model.json:1:18: error: this is not JSON: unexpected end of input; expected '[', '{', or a literal\n"
      "    1 | {\"graph_module\": \n"
      "      |                  ^");
  EXPECT_EQ(fault_of_entry(4, [](ZipEntry& entry) { entry.bytes = "{\"a\": 0,\n \"sizes\": [1e999]}"; }),
            "model.pt2: models/model.json:2:12: error: the number 1e999 is too large\n"
            "    2 |  \"sizes\": [1e999]}\n"
            "      |            ^\n"
            "  help: numbers go up to 1.8e308, the largest double");
  EXPECT_EQ(fault_of_entry(4, [](ZipEntry& entry) { entry.bytes = std::string(100000, '['); }),
            "model.pt2: models/model.json:1:129: error: this is nested more than 128 levels deep\n"
            "    1 | ..." +
                std::string(160, '[') + "...\n      |    " + std::string(80, ' ') + "^");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.nodes()[1]["inputs"][0]["arg"] = tensor("nobody"); }),
            "error: model.pt2: models/model.json: 'torch.ops.aten.tanh.default' reads 'nobody' before it is made");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.nodes()[1]["outputs"][0] = tensor("linear"); }),
            "error: model.pt2: models/model.json: 'linear' is made twice");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.graph()["tensor_values"].erase("tanh"); }),
            "error: model.pt2: models/model.json: 'tensor_values' has no 'tanh'");
  EXPECT_EQ(fault_of([](TinyModel& m) {
              m.nodes()[1]["inputs"][0]["arg"] = {{"as_tensor", 3}};
            }),
            "error: model.pt2: models/model.json: 'torch.ops.aten.tanh.default' has no 'name'");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.graph()["inputs"].erase(0); }),
            "error: model.pt2: models/model.json: the graph has 2 inputs, its signature 3");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.graph()["tensor_values"]["tanh"]["sizes"][0]["as_int"] = 1LL << 60; }),
            "error: model.pt2: models/model.json: 'sizes' of the tensor 'tanh' holds 1152921504606846976");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.graph()["tensor_values"]["tanh"]["sizes"][0]["as_int"] = 2.5; }),
            "error: model.pt2: models/model.json: 'sizes' of the tensor 'tanh' is not a whole number of 64 bits");
  EXPECT_EQ(
      fault_of([](TinyModel& m) {
        m.nodes()[1]["inputs"][0]["arg"] = {{"as_sym_ints", Json::array({{{"as_int", 2}}, {{"as_float", 1e300}}})}};
      }),
      "error: model.pt2: models/model.json: a list of 'torch.ops.aten.tanh.default' should hold whole numbers, and has 1e+300");
}

// PyTorch counts breaking changes by the major number and compatible additions by the minor one.
TEST(Archive, UnknownSchemasAreRefusedWithTheReleaseNamed) {
  const auto written_by = [](TinyModel& m, const char* release, int major, int minor) {
    m.program["torch_version"] = release;
    m.program["schema_version"] = {{"major", major}, {"minor", minor}};
  };
  EXPECT_EQ(
      fault_of([&](TinyModel& m) { written_by(m, "3.0.0+cu140", 9, 1); }),
      "error: model.pt2: models/model.json: PyTorch 3.0.0+cu140 wrote it in schema 9.1, and Panpipe reads schema 8; export the "
      "model with PyTorch 2.11 to 2.15");
  EXPECT_EQ(fault_of([&](TinyModel& m) {
              m.program["schema_version"] = {{"major", 7}, {"minor", 3}};
            }),
            "error: model.pt2: models/model.json: PyTorch of unknown release wrote it in schema 7.3, and Panpipe reads schema 8; "
            "export the model with PyTorch 2.11 to 2.15");
  // It is reported before anything else of the archive is read.
  EXPECT_EQ(
      fault_of([&](TinyModel& m) {
        written_by(m, "3.0.0", 9, 1);
        m.weights = {{"payloads", 3}};
      }),
      "error: model.pt2: models/model.json: PyTorch 3.0.0 wrote it in schema 9.1, and Panpipe reads schema 8; export the model "
      "with PyTorch 2.11 to 2.15");
  // Additions are read past; where one of them is used, the fault states who made it.
  EXPECT_EQ(fault_of([&](TinyModel& m) { written_by(m, "2.15.0+cu130", 8, 20); }), "");
  EXPECT_EQ(fault_of([&](TinyModel& m) {
              written_by(m, "2.16.0", 8, 21);
              m.program["placements"] = Json::array({"new"});
            }),
            "");
  const auto with_new_kind = [&](TinyModel& m, int minor) {
    written_by(m, "2.16.0", 8, minor);
    m.program["graph_module"]["signature"]["input_specs"][2] = {{"shared_input", {{"arg", tensor("x")}}}};
  };
  const std::string fault = "error: model.pt2: models/model.json: an input of unknown kind 'shared_input'";
  EXPECT_EQ(fault_of([&](TinyModel& m) { with_new_kind(m, 20); }), fault);
  EXPECT_EQ(fault_of([&](TinyModel& m) { with_new_kind(m, 21); }),
            fault +
                "\n  help: PyTorch 2.16.0 wrote the archive in schema 8.21, newer than 8.20, the newest that was tried; export "
                "the model with PyTorch 2.11 to 2.15");
}

TEST(Archive, WhatCannotBeTrainedIsReported) {
  const std::string advice = "; export a module whose first output is the scalar loss (tools/export_model.py adds one)";
  EXPECT_EQ(fault_of([](TinyModel& m) {
              m.program["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"] = tensor("linear_1");
            }),
            "error: model.pt2: the first output has shape [2, 5] and type float32" + advice);
  EXPECT_EQ(fault_of([](TinyModel& m) { m.program["graph_module"]["signature"]["output_specs"] = Json::array(); }),
            "error: model.pt2: the program returns nothing" + advice);
  EXPECT_EQ(fault_of([](TinyModel& m) {
              for (const char* name : {"layers.0.weight", "layers.2.weight"})
                m.weights["config"][name]["tensor_meta"]["requires_grad"] = false;
            }),
            "error: model.pt2: the first output does not depend on any trained parameter: there is nothing to train");
  EXPECT_EQ(fault_of(zip(TinyModel().entries()), 3),
            "error: model.pt2: its input 'x' has 2 samples, a microbatch 3; export the model with 3, or set batch.micro to 2");
}

TEST(Archive, AllUnusableOperatorsAreListed) {
  EXPECT_EQ(
      fault_of([](TinyModel& m) {
        m.nodes()[0]["target"] = "torch.ops.mine.scan.default";
        m.nodes()[2]["target"] = "torch.ops.mine.scan.default";
        m.nodes()[1]["target"] = "torch.ops.higher_order.cond";
        m.weights["config"]["layers.2.weight"]["use_pickle"] = true;
      }),
      "model.pt2: error: the tensor 'layers.2.weight': its value is stored as a Python pickle, which could run code and is "
      "never read; store a plain tensor\n"
      "model.pt2: error: torch.ops.mine.scan.default in module 'layers.0' and 1 more: it belongs to an extension that is not "
      "part of LibTorch; write the module with PyTorch's own operators, or decompose it (run_decompositions) before saving\n"
      "model.pt2: error: torch.ops.higher_order.cond in module 'layers.1': control flow and other higher-order operators have "
      "no place in a fixed pipeline; write the module without it");
  EXPECT_EQ(fault_of([](TinyModel& m) { m.graph()["tensor_values"]["tanh"]["dtype"] = 30; }),
            "model.pt2: error: the tensor 'tanh' in module 'layers.1': its element type (float8_e5m2) is not supported");
  EXPECT_EQ(fault_of([](TinyModel& m) {
              m.graph()["tensor_values"]["tanh"]["sizes"][0] = {{"as_expr", {{"expr_str", "u0"}, {"hint", nullptr}}}};
            }),
            "model.pt2: error: the tensor 'tanh' in module 'layers.1': its size u0 depends on the data");
}

}  // namespace
}  // namespace panpipe
