// Two hosts: network namespaces with a cable between them, real addresses, processes on each.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/exec/processes.hpp"

namespace panpipe::test {

// Skips its tests where namespaces may not be made.
class TwoHosts : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  void cut();  // the cable
  // A command on host 0 or 1, which reaches rank 0's host under the address `master`. Host 0 is 10.77.0.1, host 1 is 10.77.0.2.
  Started start(int host, const std::vector<std::string>& command, std::map<std::string, std::string> environment,
                const std::string& master = "10.77.0.1");

 private:
  std::string first_, second_, cable_;
};

}  // namespace panpipe::test
