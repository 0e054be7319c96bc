#include "hadoop/java/java_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace tfos::hadoop {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(JavaErrorTest, SaysTheErrnoOfTheClass) {
  const std::pair<const char*, int> cases[] = {
      {"java.io.FileNotFoundException: File does not exist: /x", ENOENT},
      {"org.apache.hadoop.security.AccessControlException: Permission denied", EACCES},
      {"org.apache.hadoop.fs.FileAlreadyExistsException: /x", EEXIST},
      {"org.apache.hadoop.fs.PathIsNotEmptyDirectoryException: `/x is non empty'", ENOTEMPTY},
      {"java.net.ConnectException: refused", ECONNREFUSED},
      {"java.lang.IllegalArgumentException", EINVAL},
      {"java.io.IOException: something", EIO},
      {"", EIO},
  };
  for (const auto& [text, error] : cases) {
    EXPECT_EQ(FromJava({text, ""}, "open x").code().value(), error) << text;
  }
}

TEST(JavaErrorTest, LooksIntoWhatTheServerSent) {
  const Status status =
      FromJava({"org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.hdfs.server.namenode."
                "SafeModeException): Cannot create file\n\tat org.apache.X.y(X.java:1)\n\tat more",
                ""},
               "create hdfs://h/x");
  EXPECT_EQ(status.code().value(), EAGAIN);
  EXPECT_EQ(status.kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("create hdfs://h/x"),
                                       HasSubstr("Cannot create file"), Not(HasSubstr("X.java"))));
}

TEST(JavaErrorTest, SpeaksOfKeysWhereAnObjectStoreRefuses) {
  const Status store =
      FromJava({"java.nio.file.AccessDeniedException: s3a://b/x: getFileStatus on s3a://b/x: "
                "software.amazon.awssdk.services.s3.model.S3Exception: null (Service: S3, Status "
                "Code: 403, Request ID: null):null",
                ""},
               "open s3a://b/x");
  EXPECT_EQ(store.code().value(), EACCES);
  EXPECT_THAT(store.ToString(), AllOf(HasSubstr("fs.s3a."), Not(HasSubstr("Kerberos"))));
  const Status hdfs = FromJava(
      {"org.apache.hadoop.security.AccessControlException: Permission denied", ""}, "open x");
  EXPECT_THAT(hdfs.ToString(), AllOf(HasSubstr("Kerberos"), Not(HasSubstr("fs.s3a."))));
}

TEST(JavaErrorTest, NamesTheRootCauseOnce) {
  const JavaException wrapped{"java.io.IOException: outer",
                              "java.net.UnknownHostException: nowhere"};
  EXPECT_EQ(FromJava(wrapped, "open x").code().value(), EHOSTUNREACH);
  EXPECT_THAT(FromJava(wrapped, "open x").ToString(),
              AllOf(HasSubstr("caused by java.net.UnknownHostException: nowhere"),
                    HasSubstr("HADOOP_CONF_DIR")));
  const JavaException illegal{
      "java.lang.IllegalArgumentException: java.net.UnknownHostException: nowhere",
      "java.net.UnknownHostException: nowhere"};
  EXPECT_EQ(FromJava(illegal, "open x").code().value(), EHOSTUNREACH);
  const JavaException repeated{"a.B: it says java.net.UnknownHostException: nowhere",
                               "java.net.UnknownHostException: nowhere"};
  EXPECT_THAT(FromJava(repeated, "open x").ToString(), Not(HasSubstr("caused by")));
}

}  // namespace
}  // namespace tfos::hadoop
