#include "parameter_server/client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "base/text/choice.h"

namespace tfos::parameter_server {
namespace {

/// Put into the outgoing memory before the server is told of it: small enough to be in a cache
/// still when the server reads it.
constexpr std::uint64_t kStepBytes = kBlockBytes;

constexpr Choice<Pushed> kPushed[] = {
    {"values", Pushed::kValues}, {"change", Pushed::kChange}, {"gradients", Pushed::kGradients}};

}  // namespace

Result<Pushed> PushedFrom(std::string_view name) {
  return ChoiceNamed("what is pushed", kPushed, name);
}

Result<std::unique_ptr<Client>> Client::Connect(ClientOptions options) {
  if (options.servers.empty()) return Status(ErrorKind::kBadInput, "there is no parameter server");
  TFOS_RETURN_IF_ERROR(options.rule.Check(options.variables));
  TFOS_ASSIGN_OR_RETURN(Layout layout, Layout::Of(options.variables));
  if (layout.bytes() == 0) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("all {} variables are empty: a parameter server needs at least one "
                              "element",
                              layout.variables().size()));
  }
  std::unique_ptr<Client> client(new Client(std::move(options), std::move(layout)));
  TFOS_RETURN_IF_ERROR(client->Connect());
  return client;
}

Client::~Client() = default;

Status Client::Connect() {
  const std::uint64_t bytes = layout_.bytes();
  memory_ = std::make_unique<std::byte[]>(2 * bytes);
  base_ = {memory_.get(), bytes};
  landed_ = {memory_.get() + bytes, bytes};
  const Wait wait{.deadline = Deadline::After(options_.connect_timeout), .check = options_.check};
  const std::vector<std::uint64_t> cuts = layout_.Cut(options_.servers.size());
  for (std::size_t server = 0; server < options_.servers.size(); ++server) {
    Share share{.begin = cuts[server], .end = cuts[server + 1], .link = nullptr};
    if (share.begin == share.end) continue;  // There are more servers than there is to share.
    // One server alone has workers wait: several may hear of pushes in different orders, and then
    // each of two workers would wait for the other one at another server.
    const auto staleness = shares_.empty() ? options_.staleness : std::nullopt;
    ServerLink::Options link{.server = options_.servers[server],
                             .number = static_cast<std::uint32_t>(server),
                             .worker = options_.worker,
                             .key = options_.key,
                             .open = {.rule = options_.rule,
                                      .starts = options_.starts,
                                      .staleness = staleness,
                                      .region_bytes = 0,
                                      .name = options_.name,
                                      .share = layout_.ShareOf(share.begin, share.end)},
                             .share_bytes = share.end - share.begin,
                             .stall_after = options_.stall_after,
                             .wait = wait,
                             .copy_interval = options_.copy_interval};
    if (options_.find) link.find = [find = options_.find, server] { return find(server); };
    TFOS_ASSIGN_OR_RETURN(share.link, ServerLink::Connect(std::move(link)));
    shares_.push_back(std::move(share));
  }
  return {};
}

Status Client::CheckTensors(std::span<const std::size_t> sizes) const {
  if (sizes.size() != layout_.variables().size()) {
    return {ErrorKind::kBadInput,
            fmt::format("{} tensors for {} variables", sizes.size(), layout_.variables().size())};
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == layout_.place(i).bytes) continue;
    return {ErrorKind::kBadInput, fmt::format("variable {} has {} bytes, and its tensor {}", i,
                                              layout_.place(i).bytes, sizes[i])};
  }
  return {};
}

Status Client::Run(const Exchange& exchange, Tensors tensors) {
  TFOS_RETURN_IF_ERROR(Await());
  if (exchange.push) {
    std::vector<std::size_t> sizes;
    for (const auto& tensor : tensors) sizes.push_back(tensor.size());
    TFOS_RETURN_IF_ERROR(CheckTensors(sizes));
  }
  const bool keeps_progress = exchange.push && *exchange.push != Pushed::kGradients;
  if (has_landed_ && !(keeps_progress && exchange.overlapped)) {
    // Changes are since the values that the worker has: those of base_.
    if (!keeps_progress) {
      std::swap(base_, landed_);
      BaseHasLanded();
    }
    has_landed_ = false;
  }
  // As FillPart has it.
  const bool has_push = keeps_progress && (!exchange.pull || exchange.overlapped);
  if (has_landed_ && exchange.pull) BaseHasLanded();
  for (const Share& share : shares_) {
    const auto room = landed_.subspan(share.begin, share.end - share.begin);
    share.link->Start({.push = exchange.push.has_value(),
                       .pull = exchange.pull ? room : std::span<std::byte>(),
                       .copy = CopyOf(share, has_push)});
  }
  if (exchange.push) Fill(exchange, tensors);
  under_way_ = true;
  pulling_ = exchange.pull;
  if (exchange.overlapped) {
    has_landed_ = false;  // Fill has used it.
    return {};
  }
  TFOS_RETURN_IF_ERROR(Await());
  if (has_landed_) {
    std::swap(base_, landed_);
    BaseHasLanded();
  }
  has_landed_ = false;
  return {};
}

void Client::BaseHasLanded() {
  for (Share& share : shares_) share.base_version = share.landed_version;
}

ServerLink::Copy Client::CopyOf(const Share& share, bool has_push) const {
  const bool one_more = has_push && share.base_version != kNotStarted;
  return {.values = base_.subspan(share.begin, share.end - share.begin),
          .version = share.base_version + (one_more ? 1 : 0),
          .has_push = has_push};
}

void Client::Fill(const Exchange& exchange, Tensors tensors) {
  for (const Share& share : shares_) {
    const std::span<std::byte> outgoing = share.link->outgoing();
    for (std::uint64_t begin = share.begin; begin < share.end; begin += kStepBytes) {
      const std::uint64_t end = std::min(share.end, begin + kStepBytes);
      for (const Layout::Part& part : layout_.PartsOf(begin, end)) {
        FillPart(exchange, tensors, part, outgoing.subspan(part.begin - share.begin, part.bytes));
      }
      share.link->Filled(end - share.begin);
    }
  }
}

void Client::FillPart(const Exchange& exchange, Tensors tensors, const Layout::Part& part,
                      std::span<std::byte> outgoing) {
  const std::uint64_t offset = part.begin - layout_.place(part.variable).begin;
  const auto now = tensors[part.variable].subspan(offset, part.bytes);
  const auto base = base_.subspan(part.begin, part.bytes);
  if (exchange.push == Pushed::kChange && !part.averaged) {
    Subtract(part.dtype, now, base, outgoing);
  } else {
    std::memcpy(outgoing.data(), now.data(), now.size());
  }
  if (exchange.push == Pushed::kGradients) return;
  if (!exchange.pull) {
    // The worker goes on from what it has; the next change is since now.
    std::memcpy(base.data(), now.data(), now.size());
    return;
  }
  if (!exchange.overlapped) return;
  // What has arrived, and what this worker has done since it was asked for.
  if (!has_landed_) {
    std::memcpy(base.data(), now.data(), now.size());
    return;
  }
  const auto landed = landed_.subspan(part.begin, part.bytes);
  if (part.averaged) {
    // Nothing on top: what was done since is in what was pushed, and a sum could leave the range of
    // all that was seen, such as below 0 for a variance.
    std::memcpy(base.data(), landed.data(), landed.size());
  } else if (exchange.push == Pushed::kChange) {
    Add(part.dtype, landed, outgoing, base);
  } else {
    Subtract(part.dtype, now, base, base);
    Add(part.dtype, landed, base, base);
  }
}

Status Client::Await() {
  TFOS_RETURN_IF_ERROR(failure_);
  if (!under_way_) return {};
  // A server that is gone must not keep what others do waiting.
  for (const Share& share : shares_) TFOS_RETURN_IF_ERROR(AwaitLink(share));
  under_way_ = false;
  if (!pulling_) return {};
  has_landed_ = true;
  for (Share& share : shares_) share.landed_version = share.link->version();
  return {};
}

Status Client::AwaitLink(const Share& share) {
  while (!share.link->WaitFor(kCheckInterval)) {
    if (!options_.check) continue;
    if (Status checked = options_.check(); !checked.ok()) return Fail(std::move(checked));
  }
  return share.link->status().ok() ? Status() : Fail(share.link->status());
}

Status Client::Fail(Status why) {
  if (failure_.ok()) failure_ = std::move(why);
  for (const Share& share : shares_) share.link->Abort();
  return failure_;
}

std::span<const std::byte> Client::values(std::size_t variable) const {
  const Layout::Place& place = layout_.place(variable);
  return base_.subspan(place.begin, place.bytes);
}

Status Client::CopyValues(std::span<const std::span<std::byte>> tensors) const {
  std::vector<std::size_t> sizes;
  for (const std::span<std::byte> tensor : tensors) sizes.push_back(tensor.size());
  TFOS_RETURN_IF_ERROR(CheckTensors(sizes));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::span<const std::byte> from = values(i);
    if (!from.empty()) std::memcpy(tensors[i].data(), from.data(), from.size());
  }
  return {};
}

std::uint64_t Client::version() const {
  std::uint64_t version = shares_.front().link->version();
  for (const Share& share : shares_) version = std::min(version, share.link->version());
  return version;
}

bool Client::started() const {
  return std::ranges::none_of(
      shares_, [](const Share& share) { return share.link->version() == kNotStarted; });
}

std::size_t Client::local_servers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(shares_, [](const Share& share) { return share.link->local(); }));
}

Status Client::Read(std::uint8_t part, std::span<const std::span<std::byte>> tensors) {
  TFOS_RETURN_IF_ERROR(Await());
  std::vector<std::size_t> sizes;
  for (const auto& tensor : tensors) sizes.push_back(tensor.size());
  TFOS_RETURN_IF_ERROR(CheckTensors(sizes));
  for (const Share& share : shares_) {
    read_.resize(share.end - share.begin);
    share.link->Start({.pull = read_, .part = part, .copy = CopyOf(share, /*has_push=*/false)});
    TFOS_RETURN_IF_ERROR(AwaitLink(share));
    for (const Layout::Part& piece : layout_.PartsOf(share.begin, share.end)) {
      const std::uint64_t offset = piece.begin - layout_.place(piece.variable).begin;
      std::memcpy(tensors[piece.variable].data() + offset,
                  read_.data() + (piece.begin - share.begin), piece.bytes);
    }
  }
  read_ = {};
  return {};
}

bool Client::KeepsValues(const Share& share) const {
  return options_.find && share.link->version() != kNotStarted;
}

Status Client::Write(std::uint8_t part, Tensors tensors) {
  TFOS_RETURN_IF_ERROR(Await());
  std::vector<std::size_t> sizes;
  for (const auto& tensor : tensors) sizes.push_back(tensor.size());
  TFOS_RETURN_IF_ERROR(CheckTensors(sizes));
  for (const Share& share : shares_) {
    if (KeepsValues(share)) continue;
    std::vector<std::byte> all(share.end - share.begin);
    for (const Layout::Part& piece : layout_.PartsOf(share.begin, share.end)) {
      const std::uint64_t offset = piece.begin - layout_.place(piece.variable).begin;
      std::memcpy(all.data() + (piece.begin - share.begin), tensors[piece.variable].data() + offset,
                  piece.bytes);
    }
    // A copy of what the server starts with, until there is one of what it has.
    if (part == 0) std::ranges::copy(all, base_.subspan(share.begin).begin());
    if (Status written = share.link->Write(part, all); !written.ok()) {
      return Fail(std::move(written));
    }
  }
  return {};
}

Status Client::StartAt(std::uint64_t version) {
  TFOS_RETURN_IF_ERROR(Await());
  for (Share& share : shares_) {
    if (KeepsValues(share)) continue;
    if (Status started = share.link->StartAt(version); !started.ok()) {
      return Fail(std::move(started));
    }
    share.base_version = version;
  }
  return {};
}

}  // namespace tfos::parameter_server
