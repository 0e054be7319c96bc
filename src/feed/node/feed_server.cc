#include "feed/node/feed_server.h"

#include <utility>

#include "feed/node/feed_listener.h"
#include "feed/node/session/feed_sessions.h"

namespace tfos::feed {

FeedServer::FeedServer(std::shared_ptr<FeedSessions> sessions,
                       std::unique_ptr<FeedListener> listener)
    : sessions_(std::move(sessions)), listener_(std::move(listener)) {}

FeedServer::~FeedServer() { Close(); }

Result<std::unique_ptr<FeedServer>> FeedServer::Start(FeedServerOptions options) {
  const std::string step = "start the feed server";
  Result<std::shared_ptr<FeedSessions>> sessions = FeedSessions::Create(options);
  if (!sessions.ok()) return sessions.status().Annotate(step);
  Result<std::unique_ptr<FeedListener>> listener = FeedListener::Start(options, *sessions);
  if (!listener.ok()) return listener.status().Annotate(step);
  return std::unique_ptr<FeedServer>(new FeedServer(std::move(*sessions), std::move(*listener)));
}

Endpoint FeedServer::endpoint() const { return listener_->endpoint(); }

Result<feed::Next> FeedServer::Next(std::string_view queue, const Wait& wait) {
  return sessions_->Next(queue, wait);
}

Result<ChunkLoan> FeedServer::NextPassed(std::string_view queue, std::uint32_t epoch,
                                         const Wait& wait) {
  return sessions_->NextPassed(queue, epoch, wait);
}

Result<Delivery> FeedServer::SendResult(std::uint64_t session, std::uint64_t rows,
                                        AlignedBuffer chunk, const Wait& wait) {
  return sessions_->SendResult(session, rows, std::move(chunk), wait);
}

Result<Delivery> FeedServer::FinishSession(std::uint64_t session, std::uint64_t rows) {
  return sessions_->FinishSession(session, rows);
}

void FeedServer::EndEpoch(std::string_view queue, std::uint32_t epoch) {
  sessions_->EndEpoch(queue, epoch);
}
void FeedServer::AbandonEpoch(std::string_view queue, std::uint32_t epoch, const JobId& job) {
  sessions_->AbandonEpoch(queue, epoch, job);
}
void FeedServer::EndJob(const JobId& job) { sessions_->EndJob(job); }
void FeedServer::EndFeed() { sessions_->EndFeed(); }
void FeedServer::Terminate() { sessions_->Terminate(); }
bool FeedServer::terminated() const { return sessions_->terminated(); }
void FeedServer::Fail(std::string_view text) { sessions_->Fail(text); }
void FeedServer::Close() {
  sessions_->Close();
  listener_->Join();
}
const Secret& FeedServer::key() const { return sessions_->options().key; }
net::Encryption FeedServer::encryption() const { return sessions_->options().encryption; }
bool FeedServer::pickles() const { return sessions_->options().pickles; }

FeedCounters FeedServer::counters() const { return sessions_->counters(); }

}  // namespace tfos::feed
