// What `panpipe selftest` leaves for a user to send in: a document, a page and a row of a table of runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/selftest/step.hpp"

namespace panpipe::cli {

// Takes out of a text what tells whose machine it is: this host's name, the user's, the home folder, addresses of networks and
// cards, serial numbers in the form of a UUID.
class PrivateWords {
 public:
  PrivateWords();  // of this machine and user
  PrivateWords(std::vector<std::string> hosts, std::vector<std::string> users, std::vector<std::string> folders);
  std::string removed_from(const std::string& text) const;
  // From every text of the document; keys stay.
  void remove_from(nlohmann::ordered_json& document) const;

 private:
  std::vector<std::pair<std::string, std::string>> words_;    // whole words -> what stands for them
  std::vector<std::pair<std::string, std::string>> folders_;  // the longest first
};

// Schema panpipe-selftest/1.
nlohmann::ordered_json report_document(const std::vector<StepReport>& steps, const std::string& device);
// The same for people (Markdown).
std::string report_page(const nlohmann::ordered_json& document);

// "all right" or "2 things are wrong"
std::string verdict_of(const std::vector<StepReport>& steps);

}  // namespace panpipe::cli
