#include "schedule/transfer_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/option_fault.hpp"
#include "base/text/characters.hpp"
#include "base/text/text_table.hpp"
#include "schedule/communication.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

struct Order {
  std::string receives;  // "early", "late", "given"
  Schedule schedule;
  std::vector<ScheduleProblem> mixed;  // messages in another order than they are sent
  std::vector<TransferOutcome> outcomes;
  std::vector<std::string_view> finishes_under;  // of all semantics, asked for or not; empty when every outcome finishes
};

std::vector<Order> run_all(const Schedule& schedule, const PassCosts& costs, const std::vector<TransferSemantics>& asked) {
  std::vector<Order> orders;
  if (has_receives(schedule)) {
    orders.push_back({"given", schedule, {}, {}, {}});
  } else {
    orders.push_back({"early", add_sends_and_receives(schedule, Receives::Early), {}, {}, {}});
    orders.push_back({"late", add_sends_and_receives(schedule, Receives::Late), {}, {}, {}});
  }
  for (Order& order : orders) {
    order.mixed = message_order_faults(order.schedule);
    for (const TransferSemantics semantics : asked) order.outcomes.push_back(run_transfers(order.schedule, costs, semantics));
    if (std::all_of(order.outcomes.begin(), order.outcomes.end(), [](const TransferOutcome& o) { return o.finishes; })) continue;
    for (const TransferSemantics semantics : kTransferSemantics)
      if (run_transfers(order.schedule, costs, semantics).finishes) order.finishes_under.push_back(name_of(semantics));
  }
  return orders;
}

// "finishes under buffered, deadlocks under blocking": the comparison is the point when some finish.
std::string deadlock_text(const Order& order, const std::vector<TransferSemantics>& asked) {
  std::string text;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const TransferOutcome& outcome = order.outcomes[i];
    if (outcome.finishes) continue;
    text += fmt::format(
        "receives {}: {}deadlocks under {}:\n", order.receives,
        order.finishes_under.empty() ? std::string() : fmt::format("finishes under {}, ", fmt::join(order.finishes_under, ", ")),
        name_of(asked[i]));
    for (const ScheduleProblem& problem : outcome.deadlock)
      text += fmt::format("  rank {}: step {}: {} {}\n", problem.rank, problem.position, problem.action, problem.message);
  }
  return text;
}

std::string table_of(const std::vector<Order>& orders, const std::vector<TransferSemantics>& asked) {
  std::vector<TextColumn> columns = {"<semantics"};
  for (const Order& order : orders) columns.push_back("receives " + order.receives);
  TextTable table(std::move(columns), 0);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::vector<std::string> row = {std::string(name_of(asked[i]))};
    for (const Order& order : orders)
      row.push_back(order.outcomes[i].finishes ? fmt::format("{:.12g}", order.outcomes[i].makespan) : "deadlock");
    table.row(std::move(row));
  }
  std::string text = table.text();
  for (const Order& order : orders) text += deadlock_text(order, asked);
  for (const Order& order : orders)
    for (const ScheduleProblem& problem : order.mixed)
      text += fmt::format("receives {}: rank {}: step {}: {} {}\n", order.receives, problem.rank, problem.position,
                          problem.action, problem.message);
  return text;
}

nlohmann::ordered_json problems_json(const std::vector<ScheduleProblem>& problems) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ScheduleProblem& problem : problems)
    list.push_back(
        {{"rank", problem.rank}, {"position", problem.position}, {"action", problem.action}, {"message", problem.message}});
  return list;
}

std::string json_of(const Schedule& schedule, const std::vector<Order>& orders, const std::vector<TransferSemantics>& asked) {
  nlohmann::ordered_json document;
  document["schema"] = "panpipe-transfers/1";
  document["name"] = schedule.name;
  document["ranks"] = schedule.ranks;
  document["microbatches"] = schedule.microbatches;
  document["orders"] = nlohmann::ordered_json::array();
  for (const Order& order : orders) {
    nlohmann::ordered_json entry;
    entry["receives"] = order.receives;
    entry["message_order"] = problems_json(order.mixed);
    if (!order.finishes_under.empty()) entry["finishes_under"] = order.finishes_under;
    entry["semantics"] = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const TransferOutcome& outcome = order.outcomes[i];
      nlohmann::ordered_json result;
      result["finishes"] = outcome.finishes;
      result["makespan"] = outcome.finishes ? nlohmann::ordered_json(outcome.makespan) : nlohmann::ordered_json();
      result["held"] = outcome.finishes ? nlohmann::ordered_json(outcome.held) : nlohmann::ordered_json();
      result["deadlock"] = problems_json(outcome.deadlock);
      entry["semantics"][std::string(name_of(asked[i]))] = std::move(result);
    }
    document["orders"].push_back(std::move(entry));
  }
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

CommunicationChoice parse_lowering(const std::string& text, bool defer_receives) {
  CommunicationChoice lowering;
  for (const std::string& item : text.empty() ? std::vector<std::string>() : split_text(text, ',')) {
    if (item == "send-recv") {
      lowering.transfers = true;
    } else if (item == "unshard") {
      lowering.unshard = true;
    } else {
      throw unknown_choice("lower", item, {"send-recv", "unshard"});
    }
  }
  if (defer_receives && !lowering.transfers)
    throw option_fault("defer-receives", "it moves the receives that the lowering send-recv writes");
  lowering.late_receives = defer_receives;
  return lowering;
}

Schedule lowered(const Schedule& schedule, const CommunicationChoice& lowering) {
  Schedule result = schedule;
  if (lowering.unshard) result = add_reductions(add_unshard(result));
  if (lowering.transfers) result = add_sends_and_receives(result, lowering.late_receives ? Receives::Late : Receives::Early);
  return result;
}

std::vector<TransferSemantics> parse_semantics(const std::string& text) {
  if (text == "all") return {kTransferSemantics.begin(), kTransferSemantics.end()};
  if (const auto found = find_transfer_semantics(text)) return {*found};
  std::vector<std::string> names = {"all"};
  for (const TransferSemantics semantics : kTransferSemantics) names.emplace_back(name_of(semantics));
  throw unknown_choice("semantics", text, names);
}

TransferReport report_transfers(const Schedule& schedule, const PassCosts& costs, const std::vector<TransferSemantics>& asked) {
  const std::vector<Order> orders = run_all(schedule, costs, asked);
  TransferReport report;
  report.text = table_of(orders, asked);
  report.json = json_of(schedule, orders, asked);
  for (const Order& order : orders)
    for (const TransferOutcome& outcome : order.outcomes) report.finishes &= outcome.finishes;
  return report;
}

}  // namespace panpipe
