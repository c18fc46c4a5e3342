// Implements `panpipe schedule --lower` and `--semantics`: adds communication to orders and runs them under each transfer
// semantics.
#pragma once

#include <string>
#include <vector>

#include "schedule/semantics.hpp"

namespace panpipe {

// Parses "send-recv", "unshard", or both separated by a comma. Throws InputError for anything else.
struct CommunicationChoice {
  bool unshard = false, transfers = false, late_receives = false;
};
CommunicationChoice parse_lowering(const std::string& text, bool defer_receives);
Schedule lowered(const Schedule& schedule, const CommunicationChoice& lowering);

// Parses "all" or one name. Throws InputError for anything else.
std::vector<TransferSemantics> parse_semantics(const std::string& text);

// Runs a legal order under each of the semantics. An order without sends and receives is run with early and with late receives.
struct TransferReport {
  std::string text, json;
  bool finishes = true;  // under all semantics
};
TransferReport report_transfers(const Schedule& schedule, const PassCosts& costs, const std::vector<TransferSemantics>& asked);

}  // namespace panpipe
