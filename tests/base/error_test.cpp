#include "base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/precision.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

TEST(Error, InputErrorJoinsTheTextsOfItsDiagnostics) {
  const Diagnostic first{.message = "one", .place = "a.yaml:1:2"}, second{.message = "two", .place = "a.yaml:3:4"};
  const InputError error({first, second});
  EXPECT_STREQ(error.what(), "a.yaml:1:2: error: one\na.yaml:3:4: error: two");
  EXPECT_EQ(error.diagnostics().size(), 2u);
}

TEST(Error, TheTextHasThePartsInOrder) {
  const Diagnostic all{.message = "m", .help = "h", .key = "a.b", .place = "p", .excerpt = "    1 | x"};
  EXPECT_EQ(all.text(), "p: error: m\n  at a.b\n    1 | x\n  help: h");
  EXPECT_EQ((Diagnostic{.message = "p: error: m", .rendered = true}.text()), "p: error: m");
}

TEST(Error, InputErrorWithoutPlace) {
  const InputError error("unknown schedule 'x'");
  EXPECT_STREQ(error.what(), "error: unknown schedule 'x'");
  ASSERT_EQ(error.diagnostics().size(), 1u);
  EXPECT_EQ(error.diagnostics()[0].message, "unknown schedule 'x'");
  EXPECT_EQ(error.diagnostics()[0].file, "");
  EXPECT_EQ(error.diagnostics()[0].line, 0);
  EXPECT_EQ(error.diagnostics()[0].code, "invalid");
  EXPECT_STREQ(InputError("m", "h").what(), "error: m\n  help: h");
}

TEST(Error, CheckNamesPlaceExpressionAndMessage) {
  EXPECT_NO_THROW(PANPIPE_CHECK(1 + 1 == 2, "arithmetic"));
  const std::string text = test::fault_of<InternalError>([&] { PANPIPE_CHECK(1 + 1 == 3, "arithmetic failed"); });
  EXPECT_EQ(text.rfind("this is a bug in panpipe: arithmetic failed (", 0), 0u) << text;
  EXPECT_THAT(text, testing::HasSubstr("error_test.cpp:"));
  EXPECT_THAT(text, testing::HasSubstr("'1 + 1 == 3' does not hold"));
}

TEST(Precision, EveryNameComesBack) {
  for (const Precision precision : {Precision::Fp32, Precision::Tf32, Precision::Bf16, Precision::Fp16, Precision::Bf16Pure,
                                    Precision::Fp16Pure, Precision::Fp8, Precision::Mxfp8})
    EXPECT_EQ(find_precision(name_of(precision)), precision);
  EXPECT_EQ(name_of(Precision::Bf16Pure), "bf16-pure");
  EXPECT_EQ(find_precision("bfloat16"), std::nullopt);
}

TEST(Precision, ElementsHavePyTorchNamesAndSizes) {
  EXPECT_EQ(name_of(DType::BFloat16), "bfloat16");
  EXPECT_EQ(name_of(DType::UInt8), "uint8");
  EXPECT_EQ(size_of(compute_dtype(Precision::Tf32)), Bytes(4));
  EXPECT_EQ(size_of(compute_dtype(Precision::Fp16)), Bytes(2));
}

}  // namespace
}  // namespace panpipe
