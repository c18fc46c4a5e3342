// Reads the files that a scenario names as evidence, each as what its contents are, into observations that the predictions of
// every verb are moved by.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "costmodel/prediction/given_evidence.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe::app {

// A log that states no job is of the scenario in its file, whatever was overridden since. Throws InputError with the place
// of the piece for a file that cannot be read.
std::shared_ptr<const GivenEvidence> read_evidence(const Scenario& scenario);

// The scenario with what its evidence holds.
Scenario with_evidence(Scenario scenario);

// For many scenarios of one file, which name the same pieces: each is read once for each machine, model and trainer.
class EvidenceOfCells {
 public:
  Scenario with(Scenario scenario);

 private:
  std::vector<EvidenceRequest> requests_;
  struct Read {
    std::shared_ptr<const GivenEvidence> given;
    std::vector<std::string> files;
  };
  std::map<std::string, Read> read_;
};

}  // namespace panpipe::app
