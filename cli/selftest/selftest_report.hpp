// The files that `panpipe selftest` leaves for a user to send in: a document, a page and a row of a table of runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/selftest/step.hpp"

namespace panpipe::cli {

// Removes identifying parts from a text: names of this host and user, the home folder, network and hardware addresses, serial
// numbers in the form of a UUID.
class PrivateWords {
 public:
  PrivateWords();  // of this machine and user
  PrivateWords(std::vector<std::string> hosts, std::vector<std::string> users, std::vector<std::string> folders);
  std::string removed_from(const std::string& text) const;
  // Applies to every text of the document; keys stay.
  void remove_from(nlohmann::ordered_json& document) const;

 private:
  std::vector<std::pair<std::string, std::string>> words_;    // whole words -> replacement
  std::vector<std::pair<std::string, std::string>> folders_;  // longest first
};

// Document with schema panpipe-selftest/1.
nlohmann::ordered_json report_document(const std::vector<StepReport>& steps, const std::string& device);
// The same for people (Markdown).
std::string report_page(const nlohmann::ordered_json& document);

// "all right" or "2 things are wrong"
std::string verdict_of(const std::vector<StepReport>& steps);

}  // namespace panpipe::cli
