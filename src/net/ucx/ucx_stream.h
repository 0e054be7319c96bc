#ifndef TFOS_NET_UCX_UCX_STREAM_H_
#define TFOS_NET_UCX_UCX_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/unique_fd.h"
#include "net/stream.h"
#include "net/ucx/ucx_engine.h"
#include "net/ucx/ucx_library.h"
#include "tfos/status.h"

namespace tfos::net {

/// Messages over UCX, one behind the other, as a stream. It has yet to adopt the socket that is
/// connected to the process at the other end.
///
/// Owner and lifetime: its user's; the engine must outlive it. Threads: one at a time, the engine
/// and its other streams included. Errors: reconnect when the other end is gone.
class UcxStream final : public Stream {
 public:
  UcxStream(UcxEngine& engine, std::uint64_t ours, std::uint64_t theirs)
      : Stream(UniqueFd()), engine_(engine), ours_(ours), theirs_(theirs) {}
  ~UcxStream() override;

  /// To be called once, before anything else.
  Status Connect(std::span<const std::byte> address);

  bool beside_socket() const override { return true; }
  std::string Describe() const override;
  Result<Transfer> Send(std::span<const std::byte> first,
                        std::span<const std::byte> second) override;
  Result<Transfer> Receive(std::span<std::byte> space) override;

 private:
  struct Sending {
    void* request = nullptr;  ///< Null: done.
    std::size_t bytes = 0;
    std::string copy = {};  ///< What is sent, unless it is the caller's.
  };

  static void OnError(void* lent, ucp_ep_h /*endpoint*/, ucs_status_t status);
  Status Post(Sending sending, std::span<const std::byte> data);
  /// What is done from the front of those under way.
  Result<std::size_t> TakeDone();
  /// Looks whether a request is done; frees it then.
  Result<bool> IsDone(void*& request, std::string_view doing);
  /// The next message that has come; none when there is none.
  ucp_tag_message_h Probe(std::size_t& bytes);
  std::size_t TakeSpare(std::span<std::byte> space);

  UcxEngine& engine_;
  const std::uint64_t ours_;
  const std::uint64_t theirs_;
  ucp_ep_h endpoint_ = nullptr;

  /// What UCX may use as long as the endpoint is open.
  struct Lent {
    ucs_status_t failed = UCS_OK;
    std::deque<Sending> under_way = {};
    std::vector<std::byte> spare = {};  ///< For a message that does not fit.
  };
  std::unique_ptr<Lent> lent_ = std::make_unique<Lent>();
  std::size_t posted_ = 0;  ///< Bytes of those under way.

  void* receiving_ = nullptr;
  std::size_t receiving_bytes_ = 0;
  std::byte* target_ = nullptr;  ///< Null: the spare memory.
  std::size_t spare_taken_ = 0;
  bool spare_filled_ = false;
};

}  // namespace tfos::net

#endif  // TFOS_NET_UCX_UCX_STREAM_H_
