#include "jobs/kineto/trace_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"

namespace panpipe::jobs {

CollectiveTables collectives_of(const KinetoTrace& trace, const std::string& file) {
  // Times must rise with the size: of a larger message that took less, the wait of the smaller ones was longer.
  std::map<std::tuple<std::string, int, int>, std::map<long long, double>> forms;
  for (const auto& [form, times] : trace.collectives) {
    const auto& [group, ranks, nodes, bytes] = form;
    if (ranks < 2 || nodes < 1 || ranks % nodes != 0 || bytes < 1 || !(times.least_us > 0)) continue;
    forms[{std::string(name_of(group)), ranks, nodes}][bytes] = times.least_us;
  }
  CollectiveTables tables;
  tables.measured["files"] = file;
  for (const auto& [form, sizes] : forms) {
    const auto& [kind, ranks, nodes] = form;
    CollectiveTable table{kind, ranks, nodes, {}};
    double least = 1e300;
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
      least = std::min(least, size->second);
      table.times.points.emplace_back(Bytes(size->first), Duration(least / 1e6));
    }
    std::reverse(table.times.points.begin(), table.times.points.end());
    tables.tables.push_back(std::move(table));
  }
  if (tables.tables.empty())
    throw InputError(fmt::format("{}: no collective tells its group and bytes", file),
                     "releases of PyTorch from 2.4 on write them beside each kernel of NCCL");
  return tables;
}

}  // namespace panpipe::jobs
