// The rules of every transport (exec/engine/transport/transport.hpp) as code. The test suite and `panpipe selftest` call the same
// cases. All ranks of a world call a case together; a world has 2 to 20 ranks, so that the sums are exact in every type.
#pragma once

#include <c10/core/Device.h>

#include <stdexcept>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// The transport violated the contract; `what()` states the received and the expected values.
class ContractBroken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ContractCase {
  const char* name;  // the name of the test
  const char* rule;  // for people: "every rank reaches every other"
  // Throws ContractBroken, or the transport's own exceptions. `device`: the device of this rank's tensors.
  void (*run)(Transport& transport, c10::Device device);
};

const std::vector<ContractCase>& contract_cases();
// Throws InternalError if no case has this name.
const ContractCase& contract_case(const std::string& name);

}  // namespace panpipe::exec
