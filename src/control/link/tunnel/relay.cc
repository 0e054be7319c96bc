#include "control/link/tunnel/relay.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/time/deadline.h"
#include "control/link/async_latch.h"
#include "control/link/spawn.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kBytes = std::size_t{16} << 10;

/// One way, to its end.
asio::awaitable<void> PassOn(AsyncStream& from, AsyncStream& to) {
  std::vector<std::byte> room(kBytes);
  while (true) {
    auto [ended, bytes] = co_await from.async_read_some(asio::buffer(room), kNoThrow);
    if (ended == asio::error::eof && from.other_end_has_ended()) {
      auto [cut, none] = co_await to.async_end_sending(kNoThrow);
      if (cut) break;
      co_return;
    }
    if (ended) break;
    auto [broken, sent] = co_await asio::async_write(to, asio::buffer(room, bytes), kNoThrow);
    if (broken) break;
  }
  from.Break();
  to.Break();
}

/// The two streams, which both ways use.
struct Ends {
  Ends(std::shared_ptr<AsyncStream> first, std::shared_ptr<AsyncStream> second)
      : one(std::move(first)), other(std::move(second)), ended(one->get_executor()) {}

  void Break() const {
    one->Break();
    other->Break();
  }
  void Close() const {
    one->Close();
    other->Close();
  }

  const std::shared_ptr<AsyncStream> one;
  const std::shared_ptr<AsyncStream> other;
  AsyncLatch ended;  ///< From one to the other.
};

/// However the way back ends, the way there ends, too.
class Closing {
 public:
  explicit Closing(const Ends& ends) : ends_(ends) {}
  ~Closing() { ends_.Close(); }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

 private:
  const Ends& ends_;
};

asio::awaitable<void> PassOnAndTell(std::shared_ptr<Ends> ends) {
  co_await PassOn(*ends->one, *ends->other);
  ends->ended.Open();
}

}  // namespace

asio::awaitable<void> Relay(std::shared_ptr<AsyncStream> one, std::shared_ptr<AsyncStream> other,
                            PassBeginning pass_back) {
  const auto ends = std::make_shared<Ends>(std::move(one), std::move(other));
  const Closing closing(*ends);
  Spawn(ends->one->get_executor(), "pass bytes on", PassOnAndTell(ends), [ends](const Status&) {
    ends->Close();
    ends->ended.Open();
  });
  bool goes_on = true;
  if (pass_back) goes_on = co_await pass_back(*ends->other, *ends->one);
  if (goes_on) {
    co_await PassOn(*ends->other, *ends->one);
  } else {
    ends->Break();
  }
  co_await ends->ended.Wait(Deadline::Infinite());
}

}  // namespace tfos::control
