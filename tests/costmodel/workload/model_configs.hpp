// Models by the text of a config.json.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/texts.hpp"

namespace panpipe {

class ModelConfigs : public testing::Test {
 protected:
  std::string file(const std::string& text) { return folder_.write(fmt_name(), text); }

  Workload make(const std::string& path, int degree = 1, int sequence = 256, bool sequence_parallel = false) {
    WorkloadRequest request;
    request.config_file = path;
    request.config = std::make_shared<ModelConfig>(read_model_config(path, sequence));
    return make_workload(request, {.degrees = {.tensor = degree, .micro = 1, .sequence_parallel = sequence_parallel},
                                   .precision = Precision::Bf16});
  }

  std::int64_t parameters(const std::string& text) { return make(file(text)).parameters; }

  std::string fault(const std::string& text) {
    const std::string path = file(text);
    return test::replaced(test::fault_of([&] { read_model_config(path, 256); }), folder_.path().string() + "/", "");
  }

 private:
  static std::string fmt_name() { return std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".json"; }
  const test::TemporaryFolder folder_;
};

}  // namespace panpipe
