#include "hadoop/java/java_error.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/format.h"

namespace tfos::hadoop {
namespace {

constexpr std::string_view kClassPathAdvice =
    "the class path lacks a jar: add it to HADOOP_CLASSPATH before the first use";
constexpr std::string_view kAddressAdvice =
    "check the address in the path (a NameNode's RPC port), and that HADOOP_CONF_DIR names the "
    "cluster's configuration, which defines the names of HA name services";
constexpr std::string_view kIdentityAdvice =
    "the user is HADOOP_USER_NAME or the process's own; Kerberos takes the ticket cache or the "
    "tokens in HADOOP_TOKEN_FILE_LOCATION";

constexpr std::string_view kStoreAdvice =
    "check the keys (of s3a: spark.hadoop.fs.s3a.*, or fs.s3a.* in TFOS_HADOOP_PROPERTIES), and "
    "the policy of the bucket";

struct Meaning {
  std::string_view class_name;  ///< Without its package.
  int error;
  std::string_view advice = {};
};

constexpr Meaning kMeanings[] = {
    {"FileNotFoundException", ENOENT},
    {"NoSuchFileException", ENOENT},
    {"PathNotFoundException", ENOENT},
    {"AccessControlException", EACCES, kIdentityAdvice},
    // Of java.nio: object stores throw it for 403. HDFS has one of its own, above.
    {"AccessDeniedException", EACCES, kStoreAdvice},
    {"SaslException", EACCES, kIdentityAdvice},
    {"KerberosAuthException", EACCES, kIdentityAdvice},
    {"InvalidToken", EACCES, kIdentityAdvice},
    {"FileAlreadyExistsException", EEXIST},
    {"PathExistsException", EEXIST},
    {"PathIsNotEmptyDirectoryException", ENOTEMPTY},
    {"DirectoryNotEmptyException", ENOTEMPTY},
    {"ParentNotDirectoryException", ENOTDIR},
    {"PathIsNotDirectoryException", ENOTDIR},
    {"PathIsDirectoryException", EISDIR},
    {"InvalidPathException", EINVAL},
    {"IllegalArgumentException", EINVAL},
    {"URISyntaxException", EINVAL},
    {"UnsupportedOperationException", EOPNOTSUPP},
    {"UnsupportedFileSystemException", EOPNOTSUPP, kClassPathAdvice},
    {"ClassNotFoundException", EOPNOTSUPP, kClassPathAdvice},
    {"NoClassDefFoundError", EOPNOTSUPP, kClassPathAdvice},
    {"NoSuchMethodError", EOPNOTSUPP, "the class path mixes versions of Hadoop"},
    {"UnknownHostException", EHOSTUNREACH, kAddressAdvice},
    {"NoRouteToHostException", EHOSTUNREACH, kAddressAdvice},
    {"ConnectException", ECONNREFUSED, kAddressAdvice},
    {"SocketTimeoutException", ETIMEDOUT},
    {"ConnectTimeoutException", ETIMEDOUT, kAddressAdvice},
    {"SafeModeException", EAGAIN, "the NameNode is in safe mode, as after its start: try later"},
    {"StandbyException", EAGAIN, "name the HA name service in the path, not one NameNode"},
    {"RetriableException", EAGAIN},
    {"AlreadyBeingCreatedException", EBUSY, "another writer has the file open"},
    {"RecoveryInProgressException", EBUSY,
     "the file's last writer died, and its lease is being "
     "recovered: try later"},
    {"NSQuotaExceededException", EDQUOT},
    {"DSQuotaExceededException", EDQUOT},
    {"QuotaByStorageTypeExceededException", EDQUOT},
    {"OutOfMemoryError", ENOMEM, "give the JVM more memory: TFOS_HADOOP_JVM_MEMORY=512m"},
};

/// The text up to the stack trace that a server appended.
std::string_view WithoutTrace(std::string_view text) {
  text = text.substr(0, text.find("\n\tat "));
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

/// `org.apache.hadoop.fs.X: message` is X, and so is what a server sent: `...RemoteException(a.X)`.
std::string_view ClassName(std::string_view text) {
  text = text.substr(0, text.find(':'));
  if (const auto open = text.find('('); open != std::string_view::npos && text.ends_with(')')) {
    text = text.substr(open + 1, text.size() - open - 2);
  }
  const auto package = text.find_last_of(".$");
  return package == std::string_view::npos ? text : text.substr(package + 1);
}

const Meaning* FindMeaning(std::string_view text) {
  const auto* const found = std::ranges::find(kMeanings, ClassName(text), &Meaning::class_name);
  return found == std::end(kMeanings) ? nullptr : found;
}

}  // namespace

Status FromJava(const JavaException& exception, std::string_view doing) {
  const std::string_view text = WithoutTrace(exception.text);
  const std::string_view root = WithoutTrace(exception.root_cause);
  const Meaning* meaning = FindMeaning(text);
  // Hadoop wraps an unknown host, for one, in an IllegalArgumentException.
  if (meaning == nullptr || meaning->error == EINVAL) {
    if (const Meaning* deeper = FindMeaning(root); deeper != nullptr) meaning = deeper;
  }
  std::string message = fmt::format("{}: {}", doing, text);
  // Hadoop often repeats the cause in its own message.
  const auto colon = root.find(": ");
  const std::string_view said = colon == std::string_view::npos ? root : root.substr(colon + 2);
  if (!root.empty() && text.find(said) == std::string_view::npos) {
    message += fmt::format(", caused by {}", root);
  }
  if (meaning != nullptr && !meaning->advice.empty()) {
    message += fmt::format(" ({})", meaning->advice);
  }
  return Status::FromErrno(meaning == nullptr ? EIO : meaning->error, message);
}

}  // namespace tfos::hadoop
