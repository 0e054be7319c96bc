#include "net/ucx/ucx_stream.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::net {
namespace {

/// A message of data: several are under way, and one stays in a core's cache while it is added up.
constexpr std::size_t kMessageBytes = std::size_t{256} << 10;
/// Up to here data go along with what precedes them, as one message.
constexpr std::size_t kTogetherBytes = std::size_t{8} << 10;
/// Messages of data larger than this wait for the other end to take them, so that it never keeps
/// more than one of them before it wants it.
constexpr std::size_t kUnaskedBytes = std::size_t{8} << 10;
/// How many messages may be under way.
constexpr std::size_t kMostUnderWay = 4;
/// No stream sends a larger one.
constexpr std::size_t kLargestMessage = std::size_t{1} << 20;
/// For UCX to give back the memory that it moves.
constexpr std::chrono::seconds kGiveBackPatience{10};

}  // namespace

UcxStream::~UcxStream() {
  const UcxLibrary& ucx = engine_.library();
  if (endpoint_ != nullptr) {
    ucp_request_param_t force{};
    force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    bool done = engine_.Check().ok() &&
                engine_.Await(ucx.ep_close_nbx(endpoint_, &force), kGiveBackPatience);
    // All that was under way is over with the endpoint, and nobody's memory is used any more.
    for (const Sending& sending : lent_->under_way) {
      done = engine_.Await(sending.request, kGiveBackPatience) && done;
    }
    done = engine_.Await(receiving_, kGiveBackPatience) && done;
    if (!done) {
      LogError("UCX has not closed a connection within {} s; its memory is left to it",
               kGiveBackPatience.count());
      engine_.Abandon();
      static_cast<void>(lent_.release());
    }
  }
}

Status UcxStream::Connect(std::span<const std::byte> address) {
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {.cb = OnError, .arg = lent_.get()};
  const ucs_status_t status =
      engine_.library().ep_create(engine_.handle(), &parameters, &endpoint_);
  if (status == UCS_OK) return {};
  endpoint_ = nullptr;
  return engine_.library().StatusOf(status, "connect to the other end");
}

void UcxStream::OnError(void* lent, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  static_cast<Lent*>(lent)->failed = status;
}

std::string UcxStream::Describe() const {
  // The one way to learn it that all versions have.
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const file = ::open_memstream(&text, &size);
  if (file == nullptr) return "ucx";
  engine_.library().ep_print_info(endpoint_, file);
  std::fclose(file);
  std::string_view rest(text, size);
  // Lines such as `lane[0]:  1:tcp/lo.0 md[1] ...`
  std::vector<std::string> lanes;
  while (true) {
    const std::size_t lane = rest.find("lane[");
    if (lane == std::string_view::npos) break;
    rest.remove_prefix(lane);
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size());
    const std::size_t number = line.find(':', line.find("]:") + 2);
    if (number == std::string_view::npos) continue;
    const std::string_view name = line.substr(number + 1);
    std::string lane_name(name.substr(0, name.find_first_of(" .")));
    if (std::ranges::find(lanes, lane_name) == lanes.end()) lanes.push_back(std::move(lane_name));
  }
  std::free(text);
  return lanes.empty() ? "ucx" : fmt::format("ucx ({})", fmt::join(lanes, ", "));
}

Result<bool> UcxStream::IsDone(void*& request, std::string_view doing) {
  if (request == nullptr) return true;
  const ucs_status_t status = engine_.library().request_check_status(request);
  if (status == UCS_INPROGRESS) return false;
  engine_.library().request_free(std::exchange(request, nullptr));
  if (status != UCS_OK) return engine_.library().StatusOf(status, std::string(doing));
  return true;
}

Status UcxStream::Post(Sending sending, std::span<const std::byte> data) {
  const UcxLibrary& ucx = engine_.library();
  sending.bytes = data.size();
  lent_->under_way.push_back(std::move(sending));
  Sending& posted = lent_->under_way.back();
  const void* const from = posted.copy.empty() ? static_cast<const void*>(data.data())
                                               : static_cast<const void*>(posted.copy.data());
  const ucp_request_param_t none{};
  const auto send = data.size() > kUnaskedBytes ? ucx.tag_send_sync_nbx : ucx.tag_send_nbx;
  void* const request = send(endpoint_, from, data.size(), theirs_, &none);
  if (UCS_PTR_IS_ERR(request)) {
    lent_->under_way.pop_back();
    return ucx.StatusOf(UCS_PTR_STATUS(request), "send");
  }
  posted.request = request;
  posted_ += data.size();
  return {};
}

Result<std::size_t> UcxStream::TakeDone() {
  std::size_t done = 0;
  while (!lent_->under_way.empty()) {
    TFOS_ASSIGN_OR_RETURN(const bool over, IsDone(lent_->under_way.front().request, "send"));
    if (!over) break;
    done += lent_->under_way.front().bytes;
    lent_->under_way.pop_front();
  }
  posted_ -= done;
  return done;
}

Result<Transfer> UcxStream::Send(std::span<const std::byte> first,
                                 std::span<const std::byte> second) {
  TFOS_RETURN_IF_ERROR(engine_.Check());
  if (lent_->failed != UCS_OK) return engine_.library().StatusOf(lent_->failed, "send");
  if (!lent_->under_way.empty()) engine_.Progress();
  TFOS_ASSIGN_OR_RETURN(const std::size_t done, TakeDone());
  if (done > 0) return Transfer{.bytes = done};
  // What is under way is the beginning of what is given.
  std::size_t skipped = posted_;
  const auto rest_of = [&skipped](std::span<const std::byte> bytes) {
    const std::size_t passed = std::min(skipped, bytes.size());
    skipped -= passed;
    return bytes.subspan(passed);
  };
  first = rest_of(first);
  second = rest_of(second);
  if (!first.empty()) {
    Sending sending{.copy = {reinterpret_cast<const char*>(first.data()),
                             std::min(first.size(), kLargestMessage)}};
    if (first.size() + second.size() <= kTogetherBytes) {
      sending.copy.append(reinterpret_cast<const char*>(second.data()), second.size());
      second = {};
    }
    const std::size_t size = sending.copy.size();
    TFOS_RETURN_IF_ERROR(Post(std::move(sending), {static_cast<const std::byte*>(nullptr), size}));
  }
  while (!second.empty() && lent_->under_way.size() < kMostUnderWay) {
    const std::span<const std::byte> message = second.first(std::min(second.size(), kMessageBytes));
    TFOS_RETURN_IF_ERROR(Post({}, message));
    second = second.subspan(message.size());
  }
  TFOS_ASSIGN_OR_RETURN(const std::size_t at_once, TakeDone());
  return Transfer{.bytes = at_once, .blocked = at_once == 0};
}

ucp_tag_message_h UcxStream::Probe(std::size_t& bytes) {
  const UcxLibrary& ucx = engine_.library();
  while (true) {
    ucp_tag_recv_info_t info;
    ucp_tag_message_h const message =
        ucx.tag_probe_nb(engine_.handle(), ours_, ~ucp_tag_t{0}, 1, &info);
    bytes = info.length;
    if (message != nullptr || !engine_.Progress()) return message;
  }
}

std::size_t UcxStream::TakeSpare(std::span<std::byte> space) {
  const std::size_t bytes = std::min(space.size(), lent_->spare.size() - spare_taken_);
  std::memcpy(space.data(), lent_->spare.data() + spare_taken_, bytes);
  spare_taken_ += bytes;
  spare_filled_ = spare_taken_ < lent_->spare.size();
  return bytes;
}

Result<Transfer> UcxStream::Receive(std::span<std::byte> space) {
  const UcxLibrary& ucx = engine_.library();
  TFOS_RETURN_IF_ERROR(engine_.Check());
  if (spare_filled_) return Transfer{.bytes = TakeSpare(space)};
  if (receiving_bytes_ == 0) {
    std::size_t bytes = 0;
    ucp_tag_message_h const message = Probe(bytes);
    if (message == nullptr) {
      if (lent_->failed != UCS_OK) return ucx.StatusOf(lent_->failed, "receive");
      return Transfer{.blocked = true};
    }
    if (bytes == 0 || bytes > kLargestMessage) {
      return Status(ErrorKind::kBadInput, fmt::format("a message of {} bytes over UCX", bytes));
    }
    if (bytes <= space.size()) {
      target_ = space.data();
    } else {
      lent_->spare.resize(bytes);
      target_ = nullptr;
    }
    const ucp_request_param_t none{};
    void* const request =
        ucx.tag_msg_recv_nbx(engine_.handle(), target_ != nullptr ? target_ : lent_->spare.data(),
                             bytes, message, &none);
    if (UCS_PTR_IS_ERR(request)) return ucx.StatusOf(UCS_PTR_STATUS(request), "receive");
    receiving_ = request;
    receiving_bytes_ = bytes;
  }
  TFOS_ASSIGN_OR_RETURN(bool done, IsDone(receiving_, "receive"));
  if (!done && engine_.Progress()) {
    TFOS_ASSIGN_OR_RETURN(done, IsDone(receiving_, "receive"));
  }
  if (!done) return Transfer{.blocked = true};
  const std::size_t bytes = std::exchange(receiving_bytes_, 0);
  if (target_ == nullptr) {
    spare_taken_ = 0;
    return Transfer{.bytes = TakeSpare(space)};
  }
  if (target_ != space.data()) return Status(ErrorKind::kBug, "another space than the one before");
  return Transfer{.bytes = bytes};
}

}  // namespace tfos::net
