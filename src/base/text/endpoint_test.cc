#include "base/text/endpoint.h"

#include <gtest/gtest.h>

namespace tfos {
namespace {

TEST(EndpointTest, IsWrittenAsItIsRead) {
  for (const char* text : {"10.0.0.5:41234", "worker-1.example:0", "[fe80::1]:65535", "[::]:1"}) {
    const Result<Endpoint> endpoint = Endpoint::Parse(text);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status().ToString();
    EXPECT_EQ(endpoint->ToString(), text);
  }
  EXPECT_EQ(*Endpoint::Parse("[fe80::1]:7"), (Endpoint{"fe80::1", 7}));
}

TEST(EndpointTest, AnythingElseIsBadInput) {
  for (const char* text : {"", "host", "host:", ":1", "[]:1", "host:65536", "host:-1", "host:1x",
                           "fe80::1:7", "[fe80::1:7", "fe80::1]:7", "host: 1"}) {
    const Result<Endpoint> endpoint = Endpoint::Parse(text);
    ASSERT_FALSE(endpoint.ok()) << text;
    EXPECT_EQ(endpoint.status().kind(), ErrorKind::kBadInput);
  }
}

}  // namespace
}  // namespace tfos
