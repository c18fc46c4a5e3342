#include "costmodel/workload/operator_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>

#include "base/input/reader.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {
namespace {

using ::testing::Contains;

// The executor calls operators with the schema's first arguments, in order. tests/exec/operator_schemas_test.cpp compares the
// names with those of the dispatcher.
TEST(OperatorTable, HasARowForEveryOperatorOfEveryModel) {
  std::set<std::string> checked;
  const auto check = [&](const Workload& workload) {
    for (const Operator& op : workload.graph->operators) {
      const OperatorRow& row = row_of(op);
      checked.insert(op.target);
      EXPECT_NE(row.name, "aten::") << op.target << " of " << workload.graph->name << " has no row";
      // The seventh of a grouped product are the counts of rows that came from other ranks.
      const std::size_t optional = row.role == OperatorRole::ExpertProduct ? 1 : 0;
      EXPECT_LE(op.arguments.size(), row.names.size()) << op.target;
      EXPECT_GE(op.arguments.size() + optional, row.names.size()) << op.target;
    }
  };
  std::vector<WorkloadRequest> requests;
  for (const BuiltInModel& model : built_in_models()) requests.emplace_back().model = model.name;
  for (const auto& file : std::filesystem::directory_iterator(data_directory() + "/workloads"))
    if (file.path().extension() == ".json") {
      requests.emplace_back().config_file = file.path().string();
      requests.back().config = std::make_shared<ModelConfig>(read_model_config(file.path().string(), 256));
    }
  int graphs = 0;
  for (WorkloadRequest& request : requests) {
    request.dropout = 0.1;
    for (const WorkloadShape& shape :
         {WorkloadShape{.degrees = {.micro = 1}}, WorkloadShape{.degrees = {.tensor = 4, .micro = 1, .sequence_parallel = true}},
          WorkloadShape{.degrees = {.tensor = 2, .micro = 1, .context = 2}},
          WorkloadShape{.degrees = {.micro = 1, .context = 2}, .exchange = ContextExchange::Ulysses},
          WorkloadShape{.degrees = {.tensor = 2, .micro = 1, .expert = 4, .sequence_parallel = true}}}) {
      try {
        check(make_workload(request, shape));
        ++graphs;
      } catch (const InputError&) {  // a family without dimensions, or a degree that does not divide this model
      }
    }
  }
  EXPECT_GT(graphs, 60);
  for (const char* target :
       {"panpipe::exchange_heads", "panpipe::context_keys", "panpipe::send_to_experts", "panpipe::gather_rows",
        "panpipe::vocabulary_parallel_cross_entropy", "panpipe_nn::attention", "panpipe_nn::regroup", "aten::conv2d"})
    EXPECT_THAT(checked, Contains(target));
}

TEST(OperatorTable, StatesForEveryOperatorWhatATokenDependsOn) {
  std::set<OperatorRole> roles;
  for (const OperatorRow& row : operator_rows()) {
    roles.insert(row.role);
    EXPECT_NE(row.along, Along::Unknown) << row.name;
    EXPECT_NE(row.work, nullptr) << row.name;
    const bool attends = row.along == Along::AttendsLast || row.along == Along::AttendsBehindMask;
    EXPECT_EQ(row.role == OperatorRole::Attention, attends) << row.name;
    for (const char* name : {"query", "key", "value", "is_causal", "dropout_p"})
      EXPECT_TRUE(!attends || row.takes(name)) << row.name << " has rules for slices, which read " << name;
    EXPECT_TRUE(row.along != Along::AttendsBehindMask || row.takes("attn_mask")) << row.name;
    for (const std::string_view argument : {row.traits.weight})
      EXPECT_TRUE(argument.empty() || row.takes(argument)) << row.name << ": " << argument;
  }
  EXPECT_EQ(roles.size(), static_cast<std::size_t>(OperatorRole::Other) + 1) << "every role has an operator";
  EXPECT_EQ(OperatorRow{}.along, Along::Unknown) << "a row that says nothing is refused";
}

TEST(OperatorTable, ReadsOverloadsAndInPlaceFormsAsTheirOperator) {
  EXPECT_EQ(find_row("aten::squeeze_.dim"), find_row("aten::squeeze"));
  EXPECT_EQ(find_row("aten::to.dtype")->name, "aten::to.dtype");
  EXPECT_EQ(find_row("aten::to.dtype_layout")->name, "aten::to");
  EXPECT_EQ(find_row("aten::frobnicate")->role, OperatorRole::Other);
  EXPECT_EQ(find_row("mine::frobnicate"), nullptr);
}

// Archives name what they state, in any number; builders state the schema's first arguments.
TEST(OperatorTable, FindsArgumentsByName) {
  Operator named;
  named.target = "aten::scaled_dot_product_attention";
  named.arguments = {TensorRef{1}, TensorRef{2}, TensorRef{3}, true};
  named.argument_names = {"query", "key", "value", "is_causal"};
  EXPECT_EQ(value_argument<bool>(named, "is_causal"), true);
  EXPECT_EQ(argument(named, "dropout_p"), nullptr);
  Operator stated;
  stated.target = named.target;
  stated.arguments = {TensorRef{1}, TensorRef{2}, TensorRef{3}, NoArgument{}, 0.5};
  EXPECT_EQ(value_argument<double>(stated, "dropout_p"), 0.5);
  EXPECT_EQ(tensor_argument(stated, "value"), 3);
  EXPECT_EQ(tensor_argument(stated, "attn_mask"), -1);
  EXPECT_EQ(argument(stated, "is_causal"), nullptr);
}

}  // namespace
}  // namespace panpipe
