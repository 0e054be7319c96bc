// What a coordinator answers to a Spark task after their handshake: any bytes. The answer that the
// task gets is within its limit, and the task finds a failure in it or none.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/crypto/secret.h"
#include "control/ask/failure_text.h"
#include "control/ask/http_get.h"
#include "control/ask/node_loss.h"
#include "control/messages/protocols.h"
#include "guest.h"
#include "net/listen.h"
#include "quiet.h"

using namespace tfos;           // NOLINT(google-build-using-namespace)
using namespace tfos::control;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  LogOnly("ERROR");
  static const Secret key = Secret::Generate().value();
  const std::string_view said(reinterpret_cast<const char*>(data), size);
  const net::TcpListener listener = net::ListenTcp("127.0.0.1", 0, 0).value();
  std::thread coordinator([&] {
    const auto task = AcceptGuest(listener.fd.get(), {.protocol = kAskProtocol, .key = key});
    if (task == nullptr) return;
    (void)Hear(*task, "\r\n\r\n");
    Say(*task, said);
    Drain(*task);
  });
  const auto reply =
      HttpGet({.host = "127.0.0.1", .port = listener.port, .key = key}, "/v1/failure", ForLong());
  coordinator.join();
  if (!reply.ok()) return 0;
  // It is never longer than what came: nothing is unpacked.
  if (reply->body.size() > size) std::abort();
  (void)FailureText(reply->body).ok();
  const auto ask = [&](const std::string&, std::chrono::milliseconds) {
    return std::optional<std::string>(reply->body);
  };
  const NodeLoss loss = ExplainNodeLoss({1, 2}, ask);
  if (loss.reason == LossReason::kClusterFailed) (void)FailureText(loss.failure).ok();
  return 0;
}
