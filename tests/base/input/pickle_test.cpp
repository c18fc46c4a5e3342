// Pickles of Python: what is written is read back, what Python writes is read, and what could run code is refused.
#include "base/input/pickle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "base/text/pickle_writer.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;

std::string bytes(std::initializer_list<unsigned> values) {
  std::string text;
  for (const unsigned value : values) text += static_cast<char>(value);
  return text;
}

std::string fault(const std::string& pickle) {
  return test::fault_of([&] { Pickle(pickle, "s.pickle"); });
}

// Numbers at the ends of each opcode's range: 1 byte, 2 bytes, 4 bytes with a sign, 8 bytes.
TEST(Pickle, ReadsWhatTheWriterWrites) {
  const std::vector<std::int64_t> numbers = {0,
                                             255,
                                             256,
                                             65535,
                                             65536,
                                             -1,
                                             std::numeric_limits<std::int32_t>::max(),
                                             std::numeric_limits<std::int32_t>::min(),
                                             std::int64_t{1} << 31,
                                             std::numeric_limits<std::int64_t>::max(),
                                             std::numeric_limits<std::int64_t>::min()};
  PickleWriter out;
  out.dict().text("numbers").list();
  for (const std::int64_t number : numbers) out.integer(number);
  out.end().text("real").real(-0.125).text("yes").boolean(true).field("word", "yes").text("pair").pair(3, 4);
  out.text("first").list().integer(7).end();
  const std::uint32_t first = out.remember();
  out.text("again").again(first).end();
  const Pickle pickle(out.finish(), "s.pickle");
  const auto numbers_read = pickle.items(*pickle.find(pickle.root(), "numbers"));
  ASSERT_EQ(numbers_read.size(), numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers_read[i].integer, numbers[i]);
  EXPECT_EQ(pickle.find(pickle.root(), "real")->real, -0.125);
  EXPECT_EQ(pickle.find(pickle.root(), "yes")->integer, 1);
  EXPECT_EQ(pickle.text(*pickle.find(pickle.root(), "word")), "yes");
  EXPECT_EQ(pickle.items(*pickle.find(pickle.root(), "pair")).back().integer, 4);
  EXPECT_EQ(pickle.items(*pickle.find(pickle.root(), "again")).front().integer, 7);
  EXPECT_EQ(pickle.find(pickle.root(), "missing"), nullptr);
}

// A list of 2500 is appended in three parts: a viewer in JavaScript passes each part as arguments. 0x65: APPENDS.
TEST(Pickle, LongListsAreAppendedInParts) {
  PickleWriter out;
  out.list();
  for (int i = 0; i < 2500; ++i) out.boolean(true);
  const std::string written = out.end().finish();
  EXPECT_EQ(std::count(written.begin(), written.end(), 'e'), 3);
  EXPECT_EQ(Pickle(written, "").items(Pickle(written, "").root()).size(), 2500u);
}

// pickle.dumps({"a": [1, -2.5, None], "b": ("x", "x")}, protocol=4) of Python 3.11.
TEST(Pickle, ReadsPythonsOwn) {
  const std::string dumped =
      bytes({0x80, 0x4,  0x95, 0x25, 0x0,  0x0,  0x0,  0x0,  0x0,  0x0,  0x0,  0x7d, 0x94, 0x28, 0x8c, 0x1,
             0x61, 0x94, 0x5d, 0x94, 0x28, 0x4b, 0x1,  0x47, 0xc0, 0x4,  0x0,  0x0,  0x0,  0x0,  0x0,  0x0,
             0x4e, 0x65, 0x8c, 0x1,  0x62, 0x94, 0x8c, 0x1,  0x78, 0x94, 0x68, 0x4,  0x86, 0x94, 0x75, 0x2e});
  const Pickle pickle(dumped, "s.pickle");
  const auto list = pickle.items(*pickle.find(pickle.root(), "a"));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[1].real, -2.5);
  EXPECT_EQ(list[2].kind, PickleKind::None);
}

TEST(Pickle, RefusesWhatCouldRunCode) {
  EXPECT_THAT(
      fault(bytes({0x80, 2}) + "cos\nsystem\n("),
      HasSubstr("s.pickle: byte 2: opcode GLOBAL makes an object of Python, which could run code and is never read: os.system"));
  for (const unsigned opcode : {0x93u, 0x81u, unsigned{'R'}, unsigned{'b'}, unsigned{'i'}, unsigned{'o'}, unsigned{'Q'}, 0x82u})
    EXPECT_THAT(fault(bytes({0x80, 2, 'N', 'N', opcode})), HasSubstr("makes an object of Python")) << opcode;
}

TEST(Pickle, RefusesWhatIsNone) {
  EXPECT_THAT(fault("segments: 1"), HasSubstr("this is no pickle"));
  EXPECT_THAT(fault(bytes({0x80, 0})), HasSubstr("protocol 0"));
  EXPECT_THAT(fault(bytes({0x80, 2, 'I'}) + "1\n."), HasSubstr("protocol 0"));
  EXPECT_THAT(fault(bytes({0x80, 2, 'X', 0xff, 0xff, 0xff, 0x7f, 'a'})), HasSubstr("cut off in a text"));
  EXPECT_THAT(fault(bytes({0x80, 2, 'J', 1})), HasSubstr("cut off"));
  EXPECT_THAT(fault(bytes({0x80, 2, 0x8a, 9})), HasSubstr("64 bits"));
  EXPECT_THAT(fault(bytes({0x80, 2, 'h', 4})), HasSubstr("remembered"));
  EXPECT_THAT(fault(bytes({0x80, 2, 'q', 4})), HasSubstr("missing"));
  EXPECT_THAT(fault(bytes({0x80, 2, 'e'})), HasSubstr("without its beginning"));
  EXPECT_THAT(fault(bytes({0x80, 2, '(', 'e'})), HasSubstr("without their list"));
  EXPECT_THAT(fault(bytes({0x80, 2, '}', '(', 'N', 'u', '.'})), HasSubstr("key without its value"));
  EXPECT_THAT(fault(bytes({0x80, 2, ']', '(', '.'})), HasSubstr("inside of a value"));
  EXPECT_THAT(fault(bytes({0x80, 2, '.'})), HasSubstr("inside of a value"));
  EXPECT_THAT(fault(bytes({0x80, 2, 0xee})), HasSubstr("0xee"));
  EXPECT_THAT(fault(bytes({0x80, 2, '(', 'K', 1, ')', 'a', '.'})), HasSubstr("entries"));  // the mark is in between
}

// A dict that holds itself is read; nobody walks into it.
TEST(Pickle, ADictMayHoldItself) {
  const Pickle pickle(bytes({0x80, 2, '}', 'q', 0, 'X', 1, 0, 0, 0, 'a', 'h', 0, 's', '.'}), "");
  const PickleValue* inner = pickle.find(pickle.root(), "a");
  EXPECT_EQ(pickle.find(*inner, "a")->integer, pickle.root().integer);
}

// 2^23 lists of a byte each would take far more memory than the file.
TEST(Pickle, BoundsWhatAFileCanAskFor) {
  EXPECT_THAT(fault(bytes({0x80, 2}) + std::string(Pickle::kMostContainers + 1, ']')), HasSubstr("more "));
  EXPECT_THAT(fault(bytes({0x80, 2}) + std::string(Pickle::kMostContainers + 1, '(')), HasSubstr("nested"));
}

}  // namespace
}  // namespace panpipe
