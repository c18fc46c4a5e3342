// The table of operators against the dispatcher's schemas.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/stage/own_operators.hpp"

namespace panpipe::exec {
namespace {

using Names = std::vector<std::string>;

std::multimap<std::string, Names> registered() {
  register_own_operators();
  std::multimap<std::string, Names> found;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle) continue;
    Names arguments;
    for (const c10::Argument& argument : handle->schema().arguments()) arguments.push_back(argument.name());
    found.emplace(name.name, arguments);
    if (!name.overload_name.empty()) found.emplace(name.name + "." + name.overload_name, arguments);
  }
  return found;
}

// Names of an archive's arguments come from it; a row has those that rules read, which are the first. Rows of the executor's own
// operators have all of them.
TEST(OperatorSchemas, HaveTheArgumentsOfTheTable) {
  const auto schemas = registered();
  int own = 0;
  for (const OperatorRow& row : operator_rows()) {
    if (row.between_ranks() || row.name.starts_with("panpipe::") || row.name == "aten::") continue;
    const bool ours = row.name.starts_with("panpipe_nn::");
    own += ours;
    const Names wanted(row.names.begin(), row.names.end());
    const auto [first, last] = schemas.equal_range(std::string(row.name));
    bool fits = false;
    for (auto schema = first; schema != last; ++schema) {
      const Names& given = schema->second;
      fits |= ours ? given == wanted : given.size() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), given.begin());
    }
    EXPECT_TRUE(fits) << row.name << " has other arguments than " << row.arguments;
  }
  std::size_t registered_own = 0;
  for (const auto& [name, names] : schemas) registered_own += name.starts_with("panpipe_nn::");
  EXPECT_EQ(own, registered_own) << "an operator of the executor without a row";
}

}  // namespace
}  // namespace panpipe::exec
