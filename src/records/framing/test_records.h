#ifndef TFOS_RECORDS_FRAMING_TEST_RECORDS_H_
#define TFOS_RECORDS_FRAMING_TEST_RECORDS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "records/framing/record_reader.h"
#include "records/framing/record_writer.h"

// What tests of this folder share. Header only: it is in no library.

namespace tfos::records {

inline std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The bytes that `digits`, two for each, stand for.
inline std::string FromHex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

/// The file that holds `records`.
inline std::string FileOf(const std::vector<std::string>& records) {
  std::string file;
  RecordWriter writer(std::make_unique<MemorySink>("memory", file));
  for (const std::string& record : records) EXPECT_TRUE(writer.Write(Bytes(record)).ok());
  EXPECT_TRUE(writer.Close().ok());
  EXPECT_EQ(writer.offset(), file.size());
  return file;
}

/// Gives a few bytes at a time, as a slow connection would.
class TrickleSource : public ByteSource {
 public:
  TrickleSource(std::string_view bytes, std::size_t at_once)
      : source_("trickle", Bytes(bytes)), at_once_(at_once) {}

  Result<std::size_t> Read(std::span<std::byte> room) override {
    return source_.Read(room.first(std::min(room.size(), at_once_)));
  }
  const std::string& name() const override { return source_.name(); }

 private:
  MemorySource source_;
  std::size_t at_once_;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FRAMING_TEST_RECORDS_H_
