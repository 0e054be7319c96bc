// The native methods of tfos.internal.inference.NativeModel: SavedModels over columns.

#include <jni.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrow/export.h"
#include "arrow/releasing.h"
#include "hadoop/java/jvm.h"
#include "inference/engine.h"
#include "inference/saved_model_signature.h"
#include "jvm/column_layout.h"
#include "jvm/columns.h"
#include "jvm/java_call.h"
#include "jvm/plan_json.h"
#include "tensorflow/saved_model.h"
#include "tensorflow/session_api.h"

namespace tfos::jvm {
namespace {

using hadoop::TextOf;
using inference::Engine;
using nlohmann::json;

/// A model that is loaded, with the TensorFlow that runs it.
struct Session {
  tensorflow::SessionApi api{};  ///< Borrowed by the model.
  std::unique_ptr<tensorflow::SavedModel> model;
};

/// A session for columns of one type.
struct Runner {
  std::shared_ptr<const Session> session;  ///< Borrowed by the engine.
  std::unique_ptr<Engine> engine;
  arrow::Field columns;
};

/// The texts of a JSON list.
std::vector<std::string> TextsOf(JNIEnv* java, jstring list) {
  return json::parse(TextOf(java, list)).get<std::vector<std::string>>();
}

Result<std::string> SignatureOf(JNIEnv* java, jbyteArray saved_model, jstring tags, jstring name) {
  const std::string content = BytesFrom(java, saved_model);
  TFOS_ASSIGN_OR_RETURN(const auto graphs,
                        inference::ReadSavedModel(std::as_bytes(std::span(content))));
  const std::vector<std::string> wanted = TextsOf(java, tags);
  TFOS_ASSIGN_OR_RETURN(const inference::Signature found,
                        inference::FindSignature(graphs, wanted, TextOf(java, name)));
  return SignatureToJson(found).dump();
}

Result<jlong> Load(const std::string& tensorflow, tensorflow::SavedModelOptions options) {
  auto session = std::make_shared<Session>();
  TFOS_ASSIGN_OR_RETURN(session->api, tensorflow::SessionApi::Load(tensorflow));
  TFOS_ASSIGN_OR_RETURN(session->model, tensorflow::SavedModel::Load(session->api, options));
  return Hold(std::shared_ptr<const Session>(std::move(session)));
}

Result<jlong> NewRunner(const std::shared_ptr<const Session>& session, const json& request) {
  TFOS_ASSIGN_OR_RETURN(PlannedTable planned, PlanFromJson(request));
  Runner runner{.session = session, .engine = nullptr, .columns = std::move(planned.columns)};
  TFOS_ASSIGN_OR_RETURN(runner.engine, Engine::Create(*session->model, std::move(planned.plan)));
  return Hold(std::move(runner));
}

Result<arrow::Field> Run(const Runner& runner, std::span<const std::int64_t> numbers,
                         std::uint64_t first_row) {
  TFOS_ASSIGN_OR_RETURN(arrow::Field values, ValuesFrom(runner.columns, numbers));
  const std::uint64_t rows = values.length;
  ArrowSchema schema = arrow::ExportSchema(runner.columns);
  const arrow::Releasing release_schema(schema);
  ArrowArray array = arrow::ExportArray(std::move(values));
  const arrow::Releasing release_array(array);
  const Engine::RecordBatch batch{schema, array};
  return runner.engine->Run(std::span(&batch, 1), rows, first_row);
}

}  // namespace
}  // namespace tfos::jvm

using namespace tfos;       // NOLINT: what follows is C.
using namespace tfos::jvm;  // NOLINT

extern "C" {

JNIEXPORT jstring JNICALL Java_tfos_internal_inference_NativeModel_signature(
    JNIEnv* java, jclass /*type*/, jbyteArray saved_model, jstring tags, jstring name) {
  return Enter(java, [&]() -> Result<jstring> {
    TFOS_ASSIGN_OR_RETURN(const std::string found, SignatureOf(java, saved_model, tags, name));
    return ToJava(java, found);
  });
}

JNIEXPORT jstring JNICALL Java_tfos_internal_inference_NativeModel_whyNone(
    JNIEnv* java, jclass /*type*/, jstring path, jboolean exists, jboolean is_directory,
    jstring below) {
  return Enter(java, [&]() -> Result<jstring> {
    return ToJava(java,
                  inference::WhyNoSavedModel({TextOf(java, path), exists == JNI_TRUE,
                                              is_directory == JNI_TRUE, TextsOf(java, below)}));
  });
}

JNIEXPORT jstring JNICALL Java_tfos_internal_inference_NativeModel_plan(JNIEnv* java,
                                                                        jclass /*type*/,
                                                                        jstring request) {
  return Enter(java, [&]() -> Result<jstring> {
    TFOS_ASSIGN_OR_RETURN(const PlannedTable planned,
                          PlanFromJson(json::parse(TextOf(java, request))));
    return ToJava(java, PlanToJson(planned.plan).dump());
  });
}

JNIEXPORT jlong JNICALL Java_tfos_internal_inference_NativeModel_load(
    JNIEnv* java, jclass /*type*/, jstring tensorflow, jstring directory, jstring tags,
    jstring op_libraries, jint threads) {
  return Enter(java, [&]() -> Result<jlong> {
    return Load(TextOf(java, tensorflow), {.directory = TextOf(java, directory),
                                           .tags = TextsOf(java, tags),
                                           .op_libraries = TextsOf(java, op_libraries),
                                           .threads = threads});
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_inference_NativeModel_unload(JNIEnv* /*java*/,
                                                                       jclass /*type*/,
                                                                       jlong session) {
  Release<std::shared_ptr<const Session>>(session);
}

JNIEXPORT jlong JNICALL Java_tfos_internal_inference_NativeModel_newRunner(JNIEnv* java,
                                                                           jclass /*type*/,
                                                                           jlong session,
                                                                           jstring request) {
  return Enter(java, [&] {
    return NewRunner(Held<std::shared_ptr<const Session>>(session),
                     json::parse(TextOf(java, request)));
  });
}

JNIEXPORT void JNICALL Java_tfos_internal_inference_NativeModel_deleteRunner(JNIEnv* /*java*/,
                                                                             jclass /*type*/,
                                                                             jlong runner) {
  Release<Runner>(runner);
}

JNIEXPORT jlongArray JNICALL Java_tfos_internal_inference_NativeModel_run(
    JNIEnv* java, jclass /*type*/, jlong runner, jlongArray columns, jlong first_row) {
  return Enter(java, [&]() -> Result<jlongArray> {
    TFOS_ASSIGN_OR_RETURN(arrow::Field results,
                          Run(Held<Runner>(runner), NumbersFrom(java, columns),
                              static_cast<std::uint64_t>(first_row)));
    return GiveColumns(java, std::move(results));
  });
}

}  // extern "C"
