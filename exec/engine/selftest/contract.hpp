// What every transport keeps (exec/engine/transport/transport.hpp), as code: the suite of tests and `panpipe selftest` call the
// same cases. All ranks of a world call a case together; a world has 2 to 20 ranks, so that the sums are exact in every type.
#pragma once

#include <c10/core/Device.h>

#include <stdexcept>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// The transport did what the contract forbids; `what()` says what arrived in place of what.
class ContractBroken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ContractCase {
  const char* name;  // as the test is called
  const char* rule;  // for people: "every rank reaches every other"
  // Throws ContractBroken, or what the transport throws. `device`: where this rank's tensors lie.
  void (*run)(Transport& transport, c10::Device device);
};

const std::vector<ContractCase>& contract_cases();
// InternalError where there is no case of this name.
const ContractCase& contract_case(const std::string& name);

}  // namespace panpipe::exec
