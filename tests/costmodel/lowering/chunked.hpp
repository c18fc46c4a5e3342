// A unit whose forward is a product in chunks that overlaps a collective in chunks.
#pragma once

#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe::test {

enum class Chunked { Gather, Scatter };

// `product` and `collective` seconds in n chunks, as a cost model cuts them; then 1 s.
inline TableCosts chunked(Chunked kind, int n, double product, double collective, int members = 2) {
  TableCosts costs = chain_of(1, 0, 0, 0);
  costs.is_measured = false;
  const int parts = kind == Chunked::Gather ? n - 1 : n;
  CollectiveCost& part = costs.table.collectives.emplace_back();
  part.members = members;
  part.parts = parts;
  part.bytes = part.wire_bytes = Bytes(1000);
  part.time = Duration(collective / parts);
  PassCost& pass = costs.table.units.front().forward;
  pass = {};
  const auto compute = [&](double seconds, bool chunk) {
    Piece& piece = pass.pieces.emplace_back();
    piece.time = Duration(seconds);
    piece.chunk = chunk;
  };
  for (int k = 0; k < n; ++k) {
    if (kind == Chunked::Gather && k + 1 < n) add_collective(pass, part.time);
    compute(product / n, kind == Chunked::Gather ? k + 1 < n : k > 0);
    if (kind == Chunked::Scatter) add_collective(pass, part.time);
  }
  compute(1, false);
  return costs;
}

}  // namespace panpipe::test
