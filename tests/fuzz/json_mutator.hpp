// Changes JSON as JSON: bytes that are flipped at random seldom leave a document that a reader looks into. An entry point whose
// input is pieces of JSON, parted by zero bytes, includes this file; libFuzzer then calls it in place of its own changes.
#pragma once

#ifdef PANPIPE_LIBFUZZER

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t largest);

namespace panpipe::fuzz {

using Tree = nlohmann::ordered_json;

inline void gather(Tree& tree, std::vector<Tree*>& nodes) {
  nodes.push_back(&tree);
  if (tree.is_structured())
    for (auto& child : tree) gather(child, nodes);
}

template <class List, class Random>
auto& any_of(List& list, Random& random) {
  return list[random() % list.size()];
}

// Borders of integers, of doubles and of what readers tell apart.
template <class Random>
Tree odd_value(Random& random) {
  static const std::vector<Tree> values = {0,
                                           1,
                                           -1,
                                           2,
                                           127,
                                           65536,
                                           2147483647,
                                           2147483648LL,
                                           9007199254740993LL,
                                           INT64_MAX,
                                           INT64_MIN,
                                           UINT64_MAX,
                                           0.5,
                                           -0.0,
                                           1e-308,
                                           1e18,
                                           1e308,
                                           -1e308,
                                           nullptr,
                                           true,
                                           false,
                                           "",
                                           "0",
                                           "a",
                                           "NaN",
                                           "\xC3\xA9",
                                           Tree::array(),
                                           Tree::object(),
                                           Tree::array({1, 2}),
                                           Tree{{"as_int", 1}}};
  return any_of(values, random);
}

template <class Random>
void change(Tree& root, Random& random) {
  std::vector<Tree*> nodes;
  gather(root, nodes);
  Tree& node = *any_of(nodes, random);
  switch (random() % 7) {
    case 0:
      node = odd_value(random);
      return;
    case 1:
      node = Tree(*any_of(nodes, random));
      return;  // another part of the document
    case 2: {
      Tree wrapped = Tree::array({node});
      node = wrapped;
      return;
    }
    case 3:
      if (node.is_number_integer())
        node = static_cast<std::int64_t>(static_cast<std::uint64_t>(node.get<std::int64_t>()) + 1 - random() % 3);
      if (node.is_number_float()) node = node.get<double>() * (random() % 2 ? -1 : 1e9);
      return;
    case 4:
      if (node.is_structured() && !node.empty())
        node.erase(std::next(node.begin(), static_cast<std::ptrdiff_t>(random() % node.size())));
      return;
    case 5:
      if (node.is_array() && !node.empty()) node.push_back(Tree(any_of(node, random)));
      if (node.is_object()) node["extra" + std::to_string(random() % 3)] = odd_value(random);
      return;
    default:
      if (node.is_array() && node.size() > 1) std::swap(any_of(node, random), any_of(node, random));
      if (node.is_object() && node.size() > 1) {
        auto first = std::next(node.begin(), static_cast<std::ptrdiff_t>(random() % node.size()));
        auto second = std::next(node.begin(), static_cast<std::ptrdiff_t>(random() % node.size()));
        std::swap(first.value(), second.value());
      }
      if (node.is_string()) node = node.get<std::string>() + ".0";
  }
}

}  // namespace panpipe::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t largest, unsigned seed) {
  using panpipe::fuzz::Tree;
  std::minstd_rand random(seed);
  random.discard(3);  // near seeds begin alike
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, largest);
  std::string rest = panpipe::fuzz::text_of(data, size);
  const bool several = rest.find('\0') != std::string::npos;
  std::vector<std::string> pieces;
  do pieces.push_back(panpipe::fuzz::take_piece(rest, '\0'));
  while (!rest.empty());
  std::string& piece = panpipe::fuzz::any_of(pieces, random);
  Tree root = Tree::parse(piece, nullptr, false);
  if (root.is_discarded()) return LLVMFuzzerMutate(data, size, largest);
  for (unsigned times = 1 + static_cast<unsigned>(random() % 3); times > 0; --times) panpipe::fuzz::change(root, random);
  piece = root.dump(-1, ' ', false, Tree::error_handler_t::replace);
  std::string text;
  for (std::size_t i = 0; i < pieces.size(); ++i) text += (several && i > 0 ? std::string(1, '\0') : "") + pieces[i];
  if (text.empty() || text.size() > largest) return LLVMFuzzerMutate(data, size, largest);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

#endif
