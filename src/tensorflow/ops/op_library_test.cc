#include "tensorflow/ops/op_library.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "tensorflow/tf_codes.h"

/// In place of TensorFlow's.
struct TF_Status {
  int code = tfos::tensorflow::kTfOk;
  std::string message = {};
};
struct TF_OpKernelContext {
  TF_Status failure = {};
};

namespace tfos::tensorflow {

/// In place of that of op_library.cc, which finds the functions of the process's TensorFlow: those
/// that a compute function needs.
const TfApi& Api() {
  static const TfApi api = [] {
    TfApi made{};
    made.NewStatus = [] { return new TF_Status; };
    made.DeleteStatus = [](TF_Status* status) { delete status; };
    made.GetCode = [](const TF_Status* status) { return status->code; };
    made.SetStatus = [](TF_Status* status, int code, const char* message) {
      *status = {.code = code, .message = message};
    };
    made.OpKernelContextFailure = [](TF_OpKernelContext* context, TF_Status* status) {
      context->failure = *status;
    };
    return made;
  }();
  return api;
}

namespace {

void Works(TF_OpKernelContext* /*context*/, TF_Status* /*status*/) {}
void Fails(TF_OpKernelContext* /*context*/, TF_Status* status) {
  Api().SetStatus(status, kTfInvalidArgument, "a single number is wanted");
}
void GetsNoMemory(TF_OpKernelContext* /*context*/, TF_Status* /*status*/) {
  throw std::bad_alloc();
}
void IsWrong(TF_OpKernelContext* /*context*/, TF_Status* /*status*/) {
  throw std::out_of_range("no such output");
}

/// How an op ends whose work is kCompute.
template <void (*kCompute)(TF_OpKernelContext*, TF_Status*)>
TF_Status EndOf() {
  TF_OpKernelContext context;
  Compute<kCompute>(nullptr, &context);
  return context.failure;
}

TEST(OpLibraryTest, AnOpEndsAsItsStatusSays) {
  EXPECT_EQ(EndOf<&Works>().code, kTfOk);
  const TF_Status failed = EndOf<&Fails>();
  EXPECT_EQ(failed.code, kTfInvalidArgument);
  EXPECT_EQ(failed.message, "a single number is wanted");
}

TEST(OpLibraryTest, AnOpWithoutMemoryFailsAndTheProcessGoesOn) {
  const TF_Status failed = EndOf<&GetsNoMemory>();
  EXPECT_EQ(failed.code, kTfResourceExhausted);
  EXPECT_EQ(failed.message, "no memory");
}

TEST(OpLibraryTest, OtherExceptionsAreFailuresWithTheirText) {
  const TF_Status failed = EndOf<&IsWrong>();
  EXPECT_EQ(failed.code, kTfInternal);
  EXPECT_EQ(failed.message, "no such output");
}

}  // namespace
}  // namespace tfos::tensorflow
