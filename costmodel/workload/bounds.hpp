// The largest sizes of a model: far beyond any that was trained, and small enough that products of dimensions do not overflow.
#pragma once

namespace panpipe {

constexpr int kMostLayers = 1 << 12;
constexpr int kMostHidden = 1 << 20;      // features per token
constexpr int kMostTokens = 1 << 24;      // per sequence
constexpr int kMostVocabulary = 1 << 24;  // rows of the embedding

}  // namespace panpipe
