// The native methods of tfos.internal.feed.NativeFeeder: one of them feeds one partition of a Spark
// task.

#include <jni.h>

#include <cstdint>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "arrow/export.h"
#include "base/python_error.h"
#include "chunk/chunk_rows.h"
#include "columns/arrow/arrow_columns.h"
#include "control/ask/failure_text.h"
#include "control/ask/node_loss.h"
#include "feed/feeder/feed_plan.h"
#include "feed/feeder/partition_feeder.h"
#include "jvm/column_layout.h"
#include "jvm/java_call.h"
#include "jvm/java_stream.h"

namespace tfos::jvm {
namespace {

/// Throws a tfos.internal.feed.FeedException of a class of Python's tfos.errors. Enter leaves it
/// alone.
void ThrowFeedException(JNIEnv* java, const char* python_class, const std::string& text,
                        bool superseded) {
  if (java->ExceptionCheck() == JNI_TRUE) return;
  jclass type = java->FindClass("tfos/internal/feed/FeedException");
  if (type == nullptr) return;
  jmethodID make = java->GetMethodID(type, "<init>", "(Ljava/lang/String;ZLjava/lang/String;)V");
  jstring error = ToJava(java, python_class);
  jstring message = ToJava(java, text);
  if (make == nullptr || error == nullptr || message == nullptr) return;
  const auto by_another = static_cast<jboolean>(superseded ? JNI_TRUE : JNI_FALSE);
  auto* exception =
      static_cast<jthrowable>(java->NewObject(type, make, error, by_another, message));
  if (exception != nullptr) java->Throw(exception);
}

void ThrowFeedException(JNIEnv* java, const Status& status) {
  ThrowFeedException(java, PythonErrorName(status.kind()), status.ToString(),
                     status.kind() == ErrorKind::kSuperseded);
}

template <typename Work>
auto EnterFeed(JNIEnv* java, Work work) {
  return Enter(java, [&] {
    auto outcome = work();
    if constexpr (std::is_same_v<decltype(outcome), Status>) {
      if (!outcome.ok()) ThrowFeedException(java, outcome);
    } else {
      if (!outcome.ok()) ThrowFeedException(java, outcome.status());
    }
    return outcome;
  });
}

/// Whether the task was killed, as a BooleanSupplier of Java says.
class KillCheck {
 public:
  KillCheck(JNIEnv* java, jobject killed)
      : killed_(std::make_shared<JavaReference>(java, killed)),
        get_(java->GetMethodID(java->GetObjectClass(killed), "getAsBoolean", "()Z")) {}

  Status operator()() const {
    JNIEnv* const java = killed_->java();
    const jboolean killed = java->CallBooleanMethod(killed_->get(), get_);
    if (java->ExceptionCheck() == JNI_TRUE || killed == JNI_TRUE) {
      return {ErrorKind::kInterrupted, "the task was killed"};
    }
    return Status::Ok();
  }

 private:
  std::shared_ptr<JavaReference> killed_;
  jmethodID get_;
};

struct Feeder {
  std::unique_ptr<feed::PartitionFeeder> partition;
  arrow::Field type;  ///< Of rows; not for pickled batches.
  ArrowSchema schema{};
  columns::Decimals decimals = columns::Decimals::kRefuse;
  std::uint64_t chunk_bytes = 0;

  Feeder() = default;
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;
  ~Feeder() {
    if (schema.release != nullptr) schema.release(&schema);
  }
};

using FeederPointer = std::unique_ptr<Feeder>;

Feeder& FeederOf(jlong handle) { return *Held<FeederPointer>(handle); }

/// Returns the rows that the next chunk should have.
Result<jlong> Write(Feeder& feeder, std::uint64_t wanted,
                    const std::vector<std::int64_t>& numbers) {
  TFOS_ASSIGN_OR_RETURN(arrow::Field values, ValuesFrom(feeder.type, numbers));
  const std::uint64_t rows = values.length;
  ArrowArray array = arrow::ExportArray(std::move(values));
  const std::unique_ptr<ArrowArray, void (*)(ArrowArray*)> release(
      &array, [](ArrowArray* exported) { exported->release(exported); });
  TFOS_ASSIGN_OR_RETURN(const std::unique_ptr<columns::ArrowColumns> batch,
                        columns::ArrowColumns::Open(feeder.schema, array, feeder.decimals));
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t written, feeder.partition->Write(*batch, 0, rows));
  return static_cast<jlong>(chunk::NextChunkRows(wanted, rows, written, feeder.chunk_bytes));
}

Status WritePickled(JNIEnv* java, Feeder& feeder, jobjectArray batches, jint count) {
  // Its end drops the references to the batches.
  if (java->PushLocalFrame(count) != JNI_OK) throw std::bad_alloc();
  std::vector<jbyteArray> arrays;
  std::vector<std::uint64_t> sizes;
  for (jint i = 0; i < count; ++i) {
    arrays.push_back(static_cast<jbyteArray>(java->GetObjectArrayElement(batches, i)));
    sizes.push_back(static_cast<std::uint64_t>(java->GetArrayLength(arrays.back())));
  }
  const auto copy = [&](std::size_t i, std::byte* to) {
    java->GetByteArrayRegion(arrays[i], 0, static_cast<jsize>(sizes[i]),
                             reinterpret_cast<jbyte*>(to));
  };
  const Result<std::uint64_t> written = feeder.partition->WritePickled(sizes, copy);
  java->PopLocalFrame(nullptr);
  return written.status();
}

/// As NativeFeeder.ahead of Java gives it.
jlong NumberOf(const feed::PartitionFeeder::Stretch& ahead) {
  return static_cast<jlong>(ahead.items) * (ahead.delivered ? 1 : -1);
}

}  // namespace
}  // namespace tfos::jvm

extern "C" {

using namespace tfos;       // NOLINT(google-build-using-namespace)
using namespace tfos::jvm;  // NOLINT(google-build-using-namespace)

JNIEXPORT jlong JNICALL Java_tfos_internal_feed_NativeFeeder_open(
    JNIEnv* java, jclass /*type*/, jbyteArray plan, jbyteArray executor_id, jint partition,
    jlong attempt, jbyteArray columns, jboolean decimals_as_float64, jlong chunk_bytes,
    jobject killed) {
  return EnterFeed(java, [&]() -> Result<jlong> {
    feed::FeedTask task;
    task.executor_id = BytesFrom(java, executor_id);
    task.partition = static_cast<std::uint32_t>(partition);
    task.attempt = static_cast<feed::AttemptId>(attempt);
    TFOS_ASSIGN_OR_RETURN(feed::PartitionWriterOptions options,
                          feed::ReadFeedPlan(BytesFrom(java, plan), task));
    options.check = KillCheck(java, killed);
    options.ask_ended = [text = BytesFrom(java, plan)](const InterruptCheck& check) {
      return control::EndedNodes(text, check);
    };
    auto feeder = std::make_unique<Feeder>();
    if (columns != nullptr) {
      feeder->type = TypeFromJson(nlohmann::json::parse(BytesFrom(java, columns)));
      feeder->schema = arrow::ExportSchema(feeder->type);
    }
    feeder->decimals =
        decimals_as_float64 == JNI_TRUE ? columns::Decimals::kFloat64 : columns::Decimals::kRefuse;
    feeder->chunk_bytes = static_cast<std::uint64_t>(chunk_bytes);
    TFOS_ASSIGN_OR_RETURN(feeder->partition, feed::PartitionFeeder::Open(std::move(options)));
    return Hold(std::move(feeder));
  });
}

JNIEXPORT jlong JNICALL Java_tfos_internal_feed_NativeFeeder_firstChunkRows(JNIEnv* /*java*/,
                                                                            jclass /*type*/) {
  return static_cast<jlong>(chunk::kFirstChunkRows);
}

JNIEXPORT jlong JNICALL Java_tfos_internal_feed_NativeFeeder_write(JNIEnv* java, jclass /*type*/,
                                                                   jlong handle, jlong wanted,
                                                                   jlongArray numbers) {
  return EnterFeed(java, [&]() -> Result<jlong> {
    return Write(FeederOf(handle), static_cast<std::uint64_t>(wanted), NumbersFrom(java, numbers));
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_feed_NativeFeeder_writePickled(
    JNIEnv* java, jclass /*type*/, jlong handle, jobjectArray batches, jint count) {
  EnterFeed(java, [&] { return WritePickled(java, FeederOf(handle), batches, count); });
}

JNIEXPORT jlong JNICALL Java_tfos_internal_feed_NativeFeeder_ahead(JNIEnv* /*java*/,
                                                                   jclass /*type*/, jlong handle) {
  return NumberOf(FeederOf(handle).partition->Ahead());
}

JNIEXPORT jlong JNICALL Java_tfos_internal_feed_NativeFeeder_batchesAhead(JNIEnv* /*java*/,
                                                                          jclass /*type*/,
                                                                          jlong handle) {
  return NumberOf(FeederOf(handle).partition->BatchesAhead());
}

JNIEXPORT jboolean JNICALL Java_tfos_internal_feed_NativeFeeder_stopped(JNIEnv* /*java*/,
                                                                        jclass /*type*/,
                                                                        jlong handle) {
  return FeederOf(handle).partition->stopped() ? JNI_TRUE : JNI_FALSE;
}

JNIEXPORT jlongArray JNICALL Java_tfos_internal_feed_NativeFeeder_finish(JNIEnv* java,
                                                                         jclass /*type*/,
                                                                         jlong handle) {
  return EnterFeed(java, [&]() -> Result<jlongArray> {
    feed::PartitionFeeder& partition = *FeederOf(handle).partition;
    TFOS_RETURN_IF_ERROR(partition.Finish().status());
    const std::int64_t moved[] = {static_cast<std::int64_t>(partition.moved_items())};
    return ToJava(java, static_cast<std::int64_t>(partition.delivered_items()), moved);
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_feed_NativeFeeder_close(JNIEnv* /*java*/, jclass /*type*/,
                                                                  jlong handle) {
  Release<FeederPointer>(handle);
}

JNIEXPORT jboolean JNICALL Java_tfos_internal_feed_NativeFeeder_programsHaveReturned(
    JNIEnv* java, jclass /*type*/, jbyteArray plan, jobject killed) {
  return EnterFeed(java, [&]() -> Result<jboolean> {
    TFOS_ASSIGN_OR_RETURN(const control::NodeLoss loss,
                          control::WhyNodeWasLost(BytesFrom(java, plan), KillCheck(java, killed)));
    if (loss.reason == control::LossReason::kClusterFailed) {
      TFOS_ASSIGN_OR_RETURN(const std::string text, control::FailureText(loss.failure));
      ThrowFeedException(java, "NodeFailedError", text, /*superseded=*/false);
    }
    const bool returned = loss.reason == control::LossReason::kProgramsReturned;
    return static_cast<jboolean>(returned ? JNI_TRUE : JNI_FALSE);
  });
}

}  // extern "C"
