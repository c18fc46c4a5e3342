/* The part of libmd's SHA-256 that base/files/file_hash.cpp calls. */
#pragma once

#include <cstddef>
#include <cstdint>

constexpr std::size_t SHA256_DIGEST_STRING_LENGTH = 65;

struct SHA2_CTX {
  std::uint32_t state[8];
  std::uint64_t bytes;
  std::uint8_t block[64];
};

void SHA256Init(SHA2_CTX* context);
void SHA256Update(SHA2_CTX* context, const std::uint8_t* data, std::size_t size);
char* SHA256End(SHA2_CTX* context, char* digest);
char* SHA256Data(const std::uint8_t* data, std::size_t size, char* digest);
