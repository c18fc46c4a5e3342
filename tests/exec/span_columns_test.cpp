// Do spans arrive at rank 0 as they were sent, and is a rank that sends other fields detected?
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/engine/measure/span_columns.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

Span any_span() {
  Span span;
  span.lane = Lane::Receive;
  span.action.kind = ActionKind::I;
  span.action.stage = 3;
  span.action.microbatch = 17;
  span.action.split = 2;
  span.label = "all_reduce";
  span.peer = 5;
  span.start = Duration(0.25);
  span.end = Duration(0.75);
  span.bytes = Bytes((std::int64_t{1} << 40) + 1);
  span.waiting = Duration(0.125);
  span.flow_id = 99;
  return span;
}

TEST(SpanColumns, EveryFieldArrives) {
  const Span sent = any_span();
  const auto message = nlohmann::json::from_cbor(nlohmann::json::to_cbor(columns_of({Span{}, sent})));
  const std::vector<Span> spans = spans_of(message, 1);
  ASSERT_EQ(spans.size(), 2u);
  const Span& got = spans[1];
  EXPECT_EQ(got.lane, sent.lane);
  EXPECT_EQ(got.action, sent.action);
  EXPECT_EQ(got.label, sent.label);
  EXPECT_EQ(got.peer, sent.peer);
  EXPECT_EQ(got.start, sent.start);
  EXPECT_EQ(got.end, sent.end);
  EXPECT_EQ(got.bytes, sent.bytes);
  EXPECT_EQ(got.waiting, sent.waiting);
  EXPECT_EQ(got.flow_id, sent.flow_id);
  EXPECT_EQ(spans[0].peer, -1);
  EXPECT_TRUE(spans_of(columns_of({}), 0).empty());
}

TEST(SpanColumns, OtherFieldsAreAnotherBuild) {
  nlohmann::json message = columns_of({any_span()});
  message["colour"] = message["peer"];
  message.erase("peer");
  EXPECT_EQ(test::fault_of<MachineError>([&] { spans_of(message, 3); }),
            "the ranks run different builds of panpipe: rank 3 sends the fields bytes, colour, end, flow, kind, label, lane, "
            "microbatch, split, stage, start, waiting of a span, rank 0 knows bytes, end, flow, kind, label, lane, "
            "microbatch, peer, split, stage, start, waiting; start the same program on every host");
}

}  // namespace
}  // namespace panpipe::exec
