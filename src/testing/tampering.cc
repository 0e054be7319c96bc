#include "testing/tampering.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "net/handshake/messages.h"
#include "net/tls/record_key.h"

namespace tfos::testing {
namespace {

using Direction = MiddleMan::Direction;
using Overheard = std::vector<OverheardMessage>;
using Change = std::function<PassedOn(OverheardMessage message)>;

/// Cuts a direction of a connection into messages.
class Messages {
 public:
  void Add(std::string_view bytes) { rest_ += bytes; }

  std::optional<OverheardMessage> Next(Direction direction) {
    const std::size_t bytes = Size(direction);
    if (rest_.size() < bytes) return std::nullopt;
    OverheardMessage message{
        .direction = direction, .number = number_++, .bytes = rest_.substr(0, bytes)};
    rest_.erase(0, bytes);
    return message;
  }

 private:
  /// The size of the next message, as far as its head has come.
  std::size_t Size(Direction direction) const {
    if (number_ == 0) {
      return direction == Direction::kToServer ? net::Hello::kBytes : net::Challenge::kBytes;
    }
    if (rest_.size() < net::kRecordHeadBytes) return net::kRecordHeadBytes;
    return net::kRecordHeadBytes +
           net::RecordBodyBytes(std::as_bytes(std::span(rest_)).first<net::kRecordHeadBytes>());
  }

  std::size_t number_ = 0;
  std::string rest_;
};

std::string NameOf(const OverheardMessage& message) {
  return fmt::format("message {} to the {}", message.number,
                     message.direction == Direction::kToServer ? "server" : "client");
}

bool IsSame(const OverheardMessage& one, const OverheardMessage& other) {
  return one.direction == other.direction && one.number == other.number;
}

/// Does `change` to the message of that place.
Change Once(const OverheardMessage& place, std::function<std::string(std::string bytes)> change) {
  return [place, change = std::move(change)](OverheardMessage message) {
    if (!IsSame(message, place)) return PassedOn{std::move(message.bytes)};
    return PassedOn{change(std::move(message.bytes))};
  };
}

class Tamperer {
 public:
  explicit Tamperer(const Overheard& overheard) : overheard_(overheard) {}

  std::vector<Tampering> All(std::size_t flips) {
    for (std::size_t i = 0; i < overheard_.size(); ++i) {
      const OverheardMessage& message = overheard_[i];
      Cut(message);
      if (!message.encrypted()) continue;
      for (std::size_t flip = 0; flip < flips; ++flip) {
        Flip(message, net::kRecordHeadBytes + flip * (message.bytes.size() - 1) / flips);
      }
      TakeFromEarlier(message);
      SendBack(message);
      // To say something twice or to be silent at the end changes nothing.
      if (SaysMore(i)) Repeat(message);
      if (i + 1 == overheard_.size() || !overheard_[i + 1].encrypted() ||
          overheard_[i + 1].direction != message.direction) {
        continue;
      }
      // The next one waits for no answer to this.
      LeaveOut(message);
      Exchange(message);
    }
    return std::move(all_);
  }

 private:
  void Add(std::string what, Change change) {
    all_.push_back({.what = std::move(what), .rule = OnMessages(std::move(change))});
  }

  bool SaysMore(std::size_t i) const {
    return std::any_of(
        overheard_.begin() + static_cast<std::ptrdiff_t>(i) + 1, overheard_.end(),
        [&](const OverheardMessage& later) { return later.direction == overheard_[i].direction; });
  }

  void Cut(const OverheardMessage& place) {
    for (const std::size_t kept : {std::size_t{0}, place.bytes.size() / 2}) {
      Add(fmt::format("{} is cut after {} bytes", NameOf(place), kept),
          [place, kept](OverheardMessage message) {
            if (!IsSame(message, place)) return PassedOn{std::move(message.bytes)};
            return PassedOn{.bytes = message.bytes.substr(0, kept), .more = false};
          });
    }
  }

  void Flip(const OverheardMessage& place, std::size_t byte) {
    const std::size_t at = std::min(byte, place.bytes.size() - 1);
    Add(fmt::format("bit {} of byte {} of {} is flipped", at % 8, at, NameOf(place)),
        Once(place, [at](std::string bytes) {
          const std::size_t here = std::min(at, bytes.size() - 1);
          bytes[here] = static_cast<char>(bytes[here] ^ (1 << (at % 8)));
          return bytes;
        }));
  }

  void TakeFromEarlier(const OverheardMessage& place) {
    Add(fmt::format("{} is that of an earlier connection", NameOf(place)),
        Once(place, [place](const std::string&) { return place.bytes; }));
  }

  void SendBack(const OverheardMessage& place) {
    const auto last = std::make_shared<std::string>();
    Add(fmt::format("{} is what this end has said itself", NameOf(place)),
        [place, last](OverheardMessage message) {
          if (IsSame(message, place)) return PassedOn{*last};
          if (message.direction != place.direction) *last = message.bytes;
          return PassedOn{std::move(message.bytes)};
        });
  }

  void Repeat(const OverheardMessage& place) {
    Add(fmt::format("{} comes twice", NameOf(place)),
        Once(place, [](const std::string& bytes) { return bytes + bytes; }));
  }

  void LeaveOut(const OverheardMessage& place) {
    Hold(place, fmt::format("{} is left out", NameOf(place)),
         [](const std::string& /*held*/, const std::string& next) { return next; });
  }

  void Exchange(const OverheardMessage& place) {
    Hold(place, fmt::format("{} comes after the next one", NameOf(place)),
         [](const std::string& held, const std::string& next) { return next + held; });
  }

  /// Holds a message back until the next one comes, and passes on what `both` makes of them.
  void Hold(const OverheardMessage& place, std::string what,
            std::string (*both)(const std::string& held, const std::string& next)) {
    const auto held = std::make_shared<std::optional<std::string>>();
    Add(std::move(what), [place, held, both](OverheardMessage message) {
      if (message.direction != place.direction) return PassedOn{std::move(message.bytes)};
      if (message.number == 0) held->reset();
      if (IsSame(message, place)) {
        *held = std::move(message.bytes);
        return PassedOn{};
      }
      if (!held->has_value()) return PassedOn{std::move(message.bytes)};
      return PassedOn{both(*std::exchange(*held, std::nullopt), message.bytes)};
    });
  }

  const Overheard& overheard_;
  std::vector<Tampering> all_;
};

}  // namespace

MiddleMan::Rule OnMessages(std::function<PassedOn(OverheardMessage message)> change) {
  const auto both = std::make_shared<std::array<Messages, 2>>();
  return [both, change = std::move(change)](Direction direction, std::uint64_t at,
                                            std::string& bytes) {
    Messages& messages = (*both)[static_cast<std::size_t>(direction)];
    if (at == 0) messages = Messages();
    messages.Add(std::exchange(bytes, {}));
    while (std::optional<OverheardMessage> message = messages.Next(direction)) {
      PassedOn passed = change(*std::move(message));
      bytes += passed.bytes;
      if (!passed.more) return false;
    }
    return true;
  };
}

std::vector<OverheardMessage> Overhear(std::uint16_t server_port,
                                       const std::function<void(std::uint16_t port)>& converse) {
  std::vector<OverheardMessage> overheard;
  {
    const MiddleMan middle_man(server_port, OnMessages([&](OverheardMessage message) {
                                 overheard.push_back(message);
                                 return PassedOn{std::move(message.bytes)};
                               }));
    converse(middle_man.port());
  }
  return overheard;
}

std::vector<Tampering> Tamperings(const std::vector<OverheardMessage>& overheard,
                                  std::size_t flips) {
  return Tamperer(overheard).All(flips);
}

std::vector<Tampering> Downgrades(const std::vector<OverheardMessage>& overheard) {
  constexpr std::size_t kChannel = 10;  // Of hello and challenge.
  constexpr auto kPlain = static_cast<char>(net::Channel::kPlain);
  std::vector<Tampering> all;
  for (const auto& [to_server, to_client] : {std::pair(true, false), {false, true}, {true, true}}) {
    const bool changes = std::ranges::any_of(overheard, [&](const OverheardMessage& message) {
      const bool meant = message.direction == Direction::kToServer ? to_server : to_client;
      return message.number == 0 && meant && message.bytes[kChannel] != kPlain;
    });
    if (!changes) continue;
    all.push_back(
        {.what = fmt::format("TLS is talked out of{}{}", to_server ? ", to the server" : "",
                             to_client ? ", to the client" : ""),
         .rule = [=](Direction direction, std::uint64_t at, std::string& bytes) {
           const bool meant = direction == Direction::kToServer ? to_server : to_client;
           if (at == 0 && meant) bytes[kChannel] = kPlain;
           return true;
         }});
  }
  return all;
}

MiddleMan::Rule ChangeTheLast(const std::vector<OverheardMessage>& overheard,
                              MiddleMan::Direction direction) {
  std::size_t last = 0;
  for (const OverheardMessage& message : overheard) {
    if (message.direction == direction) last = message.number;
  }
  return OnMessages([=](OverheardMessage message) {
    if (message.direction == direction && message.number == last) message.bytes.back() ^= 1;
    return PassedOn{std::move(message.bytes)};
  });
}

std::string SaidToServer(const std::vector<OverheardMessage>& overheard) {
  std::string said;
  for (const OverheardMessage& message : overheard) {
    if (message.direction == MiddleMan::Direction::kToServer) said += message.bytes;
  }
  return said;
}

}  // namespace tfos::testing
