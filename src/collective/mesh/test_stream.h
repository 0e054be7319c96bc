#ifndef TFOS_COLLECTIVE_MESH_TEST_STREAM_H_
#define TFOS_COLLECTIVE_MESH_TEST_STREAM_H_

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "net/stream.h"

namespace tfos::collective {

/// For tests: a peer that says `received`, so many bytes at a time, and closes the connection.
class RecordedStream final : public net::Stream {
 public:
  RecordedStream(std::span<const std::byte> received, std::size_t at_a_time)
      : Stream(UniqueFd()), received_(received), at_a_time_(at_a_time) {}

  std::string Describe() const override { return "recorded"; }
  Result<net::Transfer> Send(std::span<const std::byte> first,
                             std::span<const std::byte> second) override {
    return net::Transfer{.bytes = first.size() + second.size()};
  }
  Result<net::Transfer> Receive(std::span<std::byte> space) override {
    const std::size_t bytes = std::min({space.size(), received_.size(), at_a_time_});
    if (bytes == 0) return net::Transfer{.ended = true};
    std::memcpy(space.data(), received_.data(), bytes);
    received_ = received_.subspan(bytes);
    return net::Transfer{.bytes = bytes};
  }

 private:
  std::span<const std::byte> received_;
  const std::size_t at_a_time_;
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MESH_TEST_STREAM_H_
