// SHA-256 as FIPS 180-4 defines it.
#include <sha256.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace {

// Fractions of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t turned(std::uint32_t x, int by) { return (x >> by) | (x << (32 - by)); }

void take_block(SHA2_CTX& context) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint8_t* at = context.block + 4 * i;
    w[i] = std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t b = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  std::array<std::uint32_t, 8> v;
  std::copy_n(context.state, 8, v.begin());
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t chosen = (v[4] & v[5]) ^ (~v[4] & v[6]), majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    const std::uint32_t first = v[7] + (turned(v[4], 6) ^ turned(v[4], 11) ^ turned(v[4], 25)) + chosen + kRounds[i] + w[i];
    const std::uint32_t second = (turned(v[0], 2) ^ turned(v[0], 13) ^ turned(v[0], 22)) + majority;
    std::copy_backward(v.begin(), v.end() - 1, v.end());
    v[4] += first;
    v[0] = first + second;
  }
  for (std::size_t i = 0; i < 8; ++i) context.state[i] += v[i];
}

}  // namespace

void SHA256Init(SHA2_CTX* context) {
  // Fractions of the square roots of the first eight primes.
  constexpr std::uint32_t kStart[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::copy_n(kStart, 8, context->state);
  context->bytes = 0;
}

void SHA256Update(SHA2_CTX* context, const std::uint8_t* data, std::size_t size) {
  while (size > 0) {
    const std::size_t used = context->bytes % 64, taken = std::min(size, 64 - used);
    std::memcpy(context->block + used, data, taken);
    context->bytes += taken;
    data += taken;
    size -= taken;
    if (used + taken == 64) take_block(*context);
  }
}

char* SHA256End(SHA2_CTX* context, char* digest) {
  const std::uint64_t bits = context->bytes * 8;
  const std::uint8_t one = 0x80, zero = 0;
  SHA256Update(context, &one, 1);
  while (context->bytes % 64 != 56) SHA256Update(context, &zero, 1);
  for (int shift = 56; shift >= 0; shift -= 8) {
    const auto byte = static_cast<std::uint8_t>(bits >> shift);
    SHA256Update(context, &byte, 1);
  }
  for (int i = 0; i < 64; ++i) digest[i] = "0123456789abcdef"[context->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
  digest[64] = 0;
  return digest;
}

char* SHA256Data(const std::uint8_t* data, std::size_t size, char* digest) {
  SHA2_CTX context;
  SHA256Init(&context);
  SHA256Update(&context, data, size);
  return SHA256End(&context, digest);
}
