#include "net/handshake/handshake.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/memory/bytes.h"
#include "net/own_unix.h"
#include "net/poll.h"
#include "net/socket.h"

namespace tfos::net {
namespace {

/// Says that the accepting end has agreed to everything.
constexpr std::byte kWelcome{1};

Status NoMember() {
  return {ErrorKind::kBadInput, "the other end does not know the cluster's key for this"};
}

Status Closed() { return {ErrorKind::kReconnect, "the other end closed the connection"}; }

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What an end says instead of agreeing: why not, in a byte. In place of a proof 31 zero bytes are
/// before it. Anyone in the middle can say it, too, or close.
enum class Refusal : unsigned char {
  kNoMember = 0,  ///< It does not know the key.
  kOver = 2,      ///< The accepting end's generation is a later one.
  kNotYet = 3,    ///< The accepting end's generation is an earlier one.
  kOther = 4,     ///< Somebody else is expected.
};

Refusal RefusalFor(const Status& why) {
  switch (why.kind()) {
    case ErrorKind::kSuperseded:
      return Refusal::kOver;
    case ErrorKind::kRetryLater:
      return Refusal::kNotYet;
    default:
      return Refusal::kOther;
  }
}

Status Refused(const Protocol& protocol, std::byte why) {
  const auto refused = [&protocol](ErrorKind kind, std::string_view reason) {
    return Status(
        kind, fmt::format("the other end refuses this one: {}; its log about {} says more", reason,
                          protocol.name));
  };
  switch (static_cast<Refusal>(why)) {
    case Refusal::kOver:
      return refused(ErrorKind::kSuperseded,
                     "it has gone on to a later generation, without this one");
    case Refusal::kNotYet:
      return refused(ErrorKind::kRetryLater, "it has not come to this one's generation yet");
    case Refusal::kOther:
      return refused(ErrorKind::kBadInput, "it expects another member there, not this one");
    case Refusal::kNoMember:
      break;
  }
  return refused(ErrorKind::kBadInput,
                 "it belongs to another cluster, whose key this one does not have");
}

/// A refusal in place of a proof; nothing if it is none.
std::optional<std::byte> RefusalIn(const Digest& proof) {
  Digest refusing{};
  refusing.back() = proof.back();
  if (proof != refusing) return std::nullopt;
  return static_cast<std::byte>(proof.back());
}

}  // namespace

Handshake::Handshake(UniqueFd socket, const Party& party, bool connecting)
    : socket_(std::move(socket)), party_(party), connecting_(connecting) {
  transcript_.name = party_.protocol.name;
}

Handshake Handshake::Connecting(UniqueFd socket, const Party& party, const Numbers& numbers) {
  Handshake handshake(std::move(socket), party, true);
  handshake.numbers_ = numbers;
  return handshake;
}

Handshake Handshake::Accepting(UniqueFd socket, const Party& party, AcceptsNumbers accepts,
                               bool others) {
  Handshake handshake(std::move(socket), party, false);
  handshake.accepts_ = std::move(accepts);
  handshake.others_ = others;
  return handshake;
}

Result<Handshake::State> Handshake::Continue() {
  while (true) {
    TFOS_ASSIGN_OR_RETURN(const bool flushed, Flush());
    if (!flushed) return State::kWriting;
    switch (step_) {
      case Step::kBegin:
        TFOS_RETURN_IF_ERROR(Begin());
        continue;
      case Step::kBeginTls:
        TFOS_RETURN_IF_ERROR(BeginTls());
        continue;
      case Step::kTls: {
        const Result<TlsStream::Progress> shaken = stream_->ShakeHands();
        if (!shaken.ok() && shaken.status().kind() == ErrorKind::kBadInput) {
          return shaken.status().Annotate(std::string(NoMember().message()));
        }
        TFOS_ASSIGN_OR_RETURN(const TlsStream::Progress progress, shaken);
        if (progress == TlsStream::Progress::kReading) return State::kReading;
        if (progress == TlsStream::Progress::kWriting) return State::kWriting;
        TFOS_RETURN_IF_ERROR(AfterTls());
        continue;
      }
      case Step::kDone:
        return State::kDone;
      case Step::kOther:
        return State::kOther;
      default:
        break;
    }
    TFOS_ASSIGN_OR_RETURN(const bool filled, Fill());
    if (step_ == Step::kOther) continue;
    if (!filled) return State::kReading;
    switch (step_) {
      case Step::kAwaitHello:
        TFOS_RETURN_IF_ERROR(OnHello());
        break;
      case Step::kAwaitChallenge:
        TFOS_RETURN_IF_ERROR(OnChallenge());
        break;
      case Step::kAwaitProof:
        TFOS_RETURN_IF_ERROR(OnProof());
        break;
      default:  // kAwaitWelcome
        if (room_[0] != kWelcome) return Refused(party_.protocol, room_[0]);
        step_ = Step::kDone;
    }
  }
}

Status Handshake::Begin() {
  TFOS_ASSIGN_OR_RETURN(channel_, LeastChannel(socket_.get(), party_.encryption));
  if (channel_ == Channel::kLocal) TFOS_RETURN_IF_ERROR(CheckUser(socket_.get()));
  TFOS_ASSIGN_OR_RETURN(nonce_, RandomNonce());
  if (!connecting_) {
    Expect(Step::kAwaitHello, Hello::kBytes);
    return {};
  }
  Hello hello{.version = party_.protocol.version,
              .channel = channel_,
              .numbers = numbers_,
              .nonce = nonce_};
  party_.protocol.magic.copy(hello.magic.data(), hello.magic.size());
  transcript_.hello = Encode(hello);
  Say(transcript_.hello);
  Expect(Step::kAwaitChallenge, Challenge::kBytes);
  return {};
}

Status Handshake::OnHello() {
  TFOS_ASSIGN_OR_RETURN(const Hello hello, ParseHello(room_));
  ChooseDoor({hello.magic.data(), hello.magic.size()});
  // Answered before it is looked at, so that the other end can say what is wrong.
  Challenge challenge{.version = party_.protocol.version, .least = channel_, .nonce = nonce_};
  party_.protocol.magic.copy(challenge.magic.data(), challenge.magic.size());
  transcript_.hello = TextOf(room_);
  transcript_.challenge = Encode(challenge);
  Say(transcript_.challenge);
  const Status understood = [&]() -> Status {
    TFOS_RETURN_IF_ERROR(CheckVersion({hello.magic.data(), hello.magic.size()}, hello.version));
    if ((channel_ == Channel::kLocal) == (hello.channel == Channel::kLocal) &&
        hello.channel >= channel_) {
      return {};
    }
    return {ErrorKind::kBadInput,
            fmt::format("the other end wants {}, and this one {}: set spark.tfos.encrypt alike "
                        "everywhere",
                        ChannelName(hello.channel), ChannelName(channel_))};
  }();
  if (!understood.ok()) {
    static_cast<void>(Flush().ok());  // What fails is this connection.
    return understood;
  }
  channel_ = hello.channel;
  numbers_ = hello.numbers;
  if (channel_ == Channel::kTls) {
    step_ = Step::kBeginTls;
  } else {
    Expect(Step::kAwaitProof, sizeof(Digest));
  }
  return {};
}

void Handshake::ChooseDoor(std::string_view magic) {
  for (const Door& door : party_.doors) {
    if (door.protocol.magic != magic) continue;
    party_.protocol = door.protocol;
    party_.key = door.key;
    transcript_.name = door.protocol.name;
    return;
  }
}

Status Handshake::OnChallenge() {
  TFOS_ASSIGN_OR_RETURN(const Challenge challenge,
                        ParseChallenge(std::span(room_).first(Challenge::kBytes)));
  TFOS_RETURN_IF_ERROR(
      CheckVersion({challenge.magic.data(), challenge.magic.size()}, challenge.version));
  if (challenge.least > channel_) {
    return {ErrorKind::kBadInput,
            fmt::format("the other end takes nothing weaker than {}, and this one offers {}: set "
                        "spark.tfos.encrypt alike everywhere, or to true",
                        ChannelName(challenge.least), ChannelName(channel_))};
  }
  transcript_.challenge = TextOf(std::span(room_).first(Challenge::kBytes));
  if (channel_ == Channel::kTls) {
    step_ = Step::kBeginTls;
    return {};
  }
  std::string proof;
  AppendBytes(transcript_.Proof(party_.key, "connect"), proof);
  Say(proof);
  Expect(Step::kAwaitProof, sizeof(Digest));
  return {};
}

Status Handshake::OnProof() {
  Digest given;
  std::memcpy(&given, room_.data(), sizeof(given));
  const bool proved =
      SameProof(transcript_.Proof(party_.key, connecting_ ? "accept" : "connect"), given);
  if (connecting_) {
    if (!proved) {
      const auto why = RefusalIn(given);
      return why ? Refused(party_.protocol, *why) : NoMember();
    }
    step_ = Step::kDone;
    return {};
  }
  if (const Status agreed = proved ? Agree() : NoMember(); !agreed.ok()) {
    Digest refusing{};
    if (proved) refusing.back() = static_cast<Digest::value_type>(RefusalFor(agreed));
    return Refuse(std::as_bytes(std::span(refusing)), agreed);
  }
  std::string proof;
  AppendBytes(transcript_.Proof(party_.key, "accept"), proof);
  Say(proof);
  return {};
}

Status Handshake::BeginTls() {
  const auto side = connecting_ ? TlsStream::Side::kConnecting : TlsStream::Side::kAccepting;
  TFOS_ASSIGN_OR_RETURN(
      stream_, TlsStream::Begin(std::move(socket_), side, transcript_.ConnectionKey(party_.key),
                                {.batch_bytes = party_.tls_batch_bytes}));
  step_ = Step::kTls;
  return {};
}

/// TLS has proved to each end that the other one has the connection's key.
Status Handshake::AfterTls() {
  if (connecting_) {
    Expect(Step::kAwaitWelcome, sizeof(kWelcome));
    return {};
  }
  if (const Status agreed = Agree(); !agreed.ok()) {
    const auto why = static_cast<std::byte>(RefusalFor(agreed));
    return Refuse(std::span(&why, 1), agreed);
  }
  Say(TextOf(std::span(&kWelcome, 1)));
  return {};
}

/// So that the other end need not try again.
Status Handshake::Refuse(std::span<const std::byte> words, const Status& why) {
  Say(TextOf(words));
  static_cast<void>(Flush().ok());  // What fails is this connection.
  return why;
}

/// What the other end says of itself is true from here on.
Status Handshake::Agree() {
  if (accepts_) TFOS_RETURN_IF_ERROR(accepts_(numbers_));
  step_ = Step::kDone;
  return {};
}

void Handshake::Expect(Step step, std::size_t bytes) {
  step_ = step;
  awaited_ = bytes;
  filled_ = 0;
}

Result<bool> Handshake::Flush() {
  while (!out_.empty()) {
    const auto bytes = std::as_bytes(std::span(out_));
    TFOS_ASSIGN_OR_RETURN(const Transfer sent, stream_ != nullptr ? stream_->Send(bytes, {})
                                                                  : Send(socket_.get(), bytes, {}));
    out_.erase(0, sent.bytes);
    if (sent.blocked) return false;
  }
  return true;
}

Result<bool> Handshake::Fill() {
  while (filled_ < awaited_) {
    const std::span<std::byte> space = std::span(room_).subspan(filled_, awaited_ - filled_);
    TFOS_ASSIGN_OR_RETURN(const Transfer got, stream_ != nullptr
                                                  ? stream_->Receive(space)
                                                  : Receive(socket_.get(), space, nullptr));
    if (got.ended) return Closed();
    if (got.blocked) return false;
    filled_ += got.bytes;
    if (!others_ || step_ != Step::kAwaitHello) continue;
    // One byte tells: no method of HTTP begins in lower case.
    if (TextOf(room_).front() != party_.protocol.magic.front()) {
      step_ = Step::kOther;
      return false;
    }
  }
  return true;
}

Status Handshake::CheckVersion(std::string_view magic, std::uint16_t version) const {
  if (magic != party_.protocol.magic) {
    return {ErrorKind::kBadInput,
            connecting_ ? fmt::format("what listens there is not for {}", party_.protocol.name)
                        : fmt::format("the other end does not look for {}", party_.protocol.name)};
  }
  if (version == party_.protocol.version) return {};
  return {ErrorKind::kBadInput,
          fmt::format("the other end speaks version {} of the protocol for {}, this one {}: "
                      "install the same tfos on all hosts",
                      version, party_.protocol.name, party_.protocol.version)};
}

Connection Handshake::Take() {
  Connection connection{.stream = std::move(stream_),
                        .numbers = numbers_,
                        .channel = channel_,
                        .protocol = party_.protocol};
  if (connection.stream == nullptr) {
    connection.stream = std::make_unique<SocketStream>(std::move(socket_));
  }
  return connection;
}

Status Finish(Handshake& handshake, const Wait& wait) {
  while (true) {
    TFOS_ASSIGN_OR_RETURN(const Handshake::State state, handshake.Continue());
    if (state == Handshake::State::kDone || state == Handshake::State::kOther) return {};
    const short event = state == Handshake::State::kReading ? POLLIN : POLLOUT;
    TFOS_ASSIGN_OR_RETURN(const short ready, Poll(handshake.fd(), event, wait));
    if (ready == 0) return {ErrorKind::kRetryLater, "no answer within the deadline"};
  }
}

Result<Connection> ShakeHands(UniqueFd socket, const Party& party, const Numbers& numbers,
                              const Wait& wait) {
  Handshake handshake = Handshake::Connecting(std::move(socket), party, numbers);
  TFOS_RETURN_IF_ERROR(Finish(handshake, wait));
  return handshake.Take();
}

}  // namespace tfos::net
