// Headers of messages as they come over a network: what no rank sends is an error, not a size of memory.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "exec/engine/transport/message_header.hpp"

namespace panpipe::exec {
namespace {

// Of a tensor (2, 3) of floats: 24 bytes, which travel in the same message.
MessageHeader sound() { return {0, 7, static_cast<std::int32_t>(at::kFloat), 2, 24, 1, {2, 3}}; }

TEST(MessageHeader, ThatIsSoundGetsItsRoom) {
  const at::Tensor room = room_for(sound());
  EXPECT_EQ(room.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(room.scalar_type(), at::kFloat);
  MessageHeader large = sound();  // 4 x 2 x 10000 bytes come by themselves
  large.shape[1] = 10000;
  large.bytes = 80000;
  large.inlined = 0;
  EXPECT_EQ(room_for(large).nbytes(), 80000u);
  MessageHeader empty = sound();
  empty.shape[0] = 0;
  empty.bytes = 0;
  EXPECT_EQ(room_for(empty).numel(), 0);
}

TEST(MessageHeader, ThatNoRankSendsIsAnError) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() / 2;
  struct Wrong {
    const char* name;
    std::function<void(MessageHeader&)> change;
  };
  for (const Wrong& wrong : {Wrong{"more dimensions than the header has room for", [](auto& h) { h.dimensions = 26; }},
                             {"fewer than none", [](auto& h) { h.dimensions = -1; }},
                             {"a size below zero", [](auto& h) { h.shape[0] = -2; }},
                             {"a type that LibTorch has not", [](auto& h) { h.dtype = 1000; }},
                             {"a type below zero", [](auto& h) { h.dtype = -1; }},
                             {"more bytes than the shape has", [](auto& h) { h.bytes = 25; }},
                             {"fewer", [](auto& h) { h.bytes = 23; }},
                             {"below zero", [](auto& h) { h.bytes = -1; }},
                             {"more values in the message than it has room for",
                              [](auto& h) {
                                h.shape[1] = 10000;
                                h.bytes = 80000;
                              }},
                             {"few values that are said to come by themselves", [](auto& h) { h.inlined = 0; }},
                             // 4 x huge x 4 is 0 in 64 bits, were it not looked at.
                             {"a size beyond 64 bits", [](auto& h) {
                                h.shape[0] = kHuge;
                                h.shape[1] = 4;
                                h.bytes = static_cast<std::int64_t>(4 * static_cast<std::uint64_t>(kHuge) * 4);
                              }}}) {
    SCOPED_TRACE(wrong.name);
    MessageHeader header = sound();
    wrong.change(header);
    EXPECT_THROW(room_for(header), MachineError);
  }
}

}  // namespace
}  // namespace panpipe::exec
