#include "control/link/relay.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
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
    if (ended == asio::error::eof) {
      to.ShutDownSending();
      co_return;
    }
    if (ended) break;
    auto [broken, sent] = co_await asio::async_write(to, asio::buffer(room, bytes), kNoThrow);
    if (broken) break;
  }
  from.Close();
  to.Close();
}

asio::awaitable<void> PassOnAndTell(AsyncStream& from, AsyncStream& to, AsyncLatch& ended) {
  co_await PassOn(from, to);
  ended.Open();
}

}  // namespace

asio::awaitable<void> Relay(AsyncStream& one, AsyncStream& other) {
  AsyncLatch ended(one.get_executor());
  Spawn(one.get_executor(), "pass bytes on", PassOnAndTell(one, other, ended), [&](const Status&) {
    one.Close();
    other.Close();
    ended.Open();
  });
  co_await PassOn(other, one);
  co_await ended.Wait(Deadline::Infinite());
  one.Close();
  other.Close();
}

}  // namespace tfos::control
