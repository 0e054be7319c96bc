#include "tfos/status.h"

#include <cerrno>

#include "base/format.h"

namespace tfos {
namespace {

ErrorKind KindOfErrno(int error) {
  switch (error) {
    case EAGAIN:
    case EINTR:
    case EADDRINUSE:
    case ETIMEDOUT:
      return ErrorKind::kRetryLater;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOSPC:
    case EDQUOT:
      return ErrorKind::kNoResources;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return ErrorKind::kReconnect;
    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorKind::kUnsupported;
    default:
      return ErrorKind::kBadInput;
  }
}

}  // namespace

struct Status::Rep {
  ErrorKind kind;
  std::string message;
  std::error_code code;
  std::source_location where;
  Status cause;
};

std::string_view ErrorKindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kRetryLater:
      return "retry later";
    case ErrorKind::kReconnect:
      return "reconnect";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kSuperseded:
      return "superseded";
    case ErrorKind::kBadInput:
      return "bad input";
    case ErrorKind::kBug:
      return "bug";
    case ErrorKind::kNoResources:
      return "no resources";
    case ErrorKind::kInterrupted:
      return "interrupted";
  }
  return "unknown";
}

Status::Status(ErrorKind kind, std::string message, std::source_location where)
    : rep_(std::make_shared<Rep>(Rep{kind, std::move(message), {}, where, {}})) {}

Status Status::FromErrno(int error, std::string_view doing, std::source_location where) {
  std::error_code code(error, std::generic_category());
  Status status;
  status.rep_ = std::make_shared<Rep>(
      Rep{KindOfErrno(error), fmt::format("{}: {}", doing, code.message()), code, where, {}});
  return status;
}

ErrorKind Status::kind() const { return rep_->kind; }
const std::string& Status::message() const { return rep_->message; }
const std::source_location& Status::where() const { return rep_->where; }

std::error_code Status::code() const {
  const Status* link = this;
  while (link->cause() != nullptr) link = link->cause();
  return link->rep_->code;
}

const Status* Status::cause() const { return rep_->cause.ok() ? nullptr : &rep_->cause; }

Status Status::Annotate(std::string doing, std::source_location where) const {
  if (ok()) return *this;
  Status outer;
  outer.rep_ = std::make_shared<Rep>(Rep{rep_->kind, std::move(doing), {}, where, *this});
  return outer;
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string text;
  for (const Status* link = this; link != nullptr; link = link->cause()) {
    if (!text.empty()) text += ": ";
    text += link->message();
  }
  return text;
}

std::string Status::DebugString() const {
  if (ok()) return "ok";
  std::string text;
  for (const Status* link = this; link != nullptr; link = link->cause()) {
    if (!text.empty()) text += "\n  because ";
    text += fmt::format("{} [{}] ({}:{})", link->message(), ErrorKindName(link->kind()),
                        link->where().file_name(), link->where().line());
    if (link->rep_->code) text += fmt::format(" errno {}", link->rep_->code.value());
  }
  return text;
}

}  // namespace tfos
