#include "control/link/server/page_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/crypto/purpose.h"

namespace tfos::control {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class PageKeysTest : public ::testing::Test {
 protected:
  std::string Bearer(Purpose purpose) const { return "Bearer " + KeyFor(token_, purpose).ToHex(); }
  std::string Read() const { return KeyFor(token_, Purpose::kRead).ToHex(); }

  const Secret token_ = Secret::Generate().value();
  const PageKeys keys_{token_, ""};
};

TEST_F(PageKeysTest, EachPageHasItsBearer) {
  EXPECT_TRUE(keys_.Open("/metrics", Bearer(Purpose::kScrape), ""));
  EXPECT_FALSE(keys_.Open("/metrics", Bearer(Purpose::kRead), ""));
  for (const char* page :
       {"/v1/status", "/v1/failure", "/v1/history", "/report", "/tensorboard/data/runs"}) {
    EXPECT_TRUE(keys_.Open(page, Bearer(Purpose::kRead), ""));
    EXPECT_FALSE(keys_.Open(page, Bearer(Purpose::kScrape), ""));
    EXPECT_FALSE(keys_.Open(page, Bearer(Purpose::kJoin), ""));
    EXPECT_FALSE(keys_.Open(page, "Bearer " + token_.ToHex(), ""));
    EXPECT_FALSE(keys_.Open(page, Read(), ""));
    EXPECT_FALSE(keys_.Open(page, "", ""));
  }
}

TEST_F(PageKeysTest, TheFilesOfThePageAreForEverybody) {
  for (const char* page : {"/", "/page/page.js"}) EXPECT_TRUE(PageKeys::IsPublic(page)) << page;
  for (const char* page : {"", "/page", "/v1/status", "/v1/history", "/report", "/metrics", "//",
                           "/tensorboard/", "/v1/agent"}) {
    EXPECT_FALSE(PageKeys::IsPublic(page)) << page;
  }
}

TEST_F(PageKeysTest, WhatNodesWriteAndDoIsForPeople) {
  for (const char* page : {"/v1/output", "/v1/stacks"}) {
    EXPECT_TRUE(PageKeys::IsForPeople(page));
    EXPECT_TRUE(keys_.Open(page, Bearer(Purpose::kRead), ""));
  }
  for (const char* page : {"/v1/status", "/v1/failure"}) EXPECT_FALSE(PageKeys::IsForPeople(page));
}

TEST_F(PageKeysTest, AChosenTokenOpensTheMetricsInPlaceOfTheKey) {
  const PageKeys keys(token_, "chosen");
  EXPECT_TRUE(keys.Open("/metrics", "Bearer chosen", ""));
  EXPECT_FALSE(keys.Open("/metrics", Bearer(Purpose::kScrape), ""));
  EXPECT_FALSE(keys.Open("/v1/status", "Bearer chosen", ""));
}

TEST_F(PageKeysTest, ACookieOpensTensorBoardAlone) {
  EXPECT_FALSE(keys_.CookieFor("/tensorboard/", "").has_value());
  EXPECT_FALSE(keys_.CookieFor("/tensorboard/", "key=").has_value());
  EXPECT_FALSE(keys_.CookieFor("/tensorboard/", "key=" + token_.ToHex()).has_value());
  for (const char* page : {"", "/", "/tensorboard", "/tensorboard/data/", "/tensorboards/"}) {
    EXPECT_FALSE(keys_.CookieFor(page, "key=" + Read()).has_value()) << page;
  }
  const auto set = keys_.CookieFor("/tensorboard/", "key=" + Read());
  ASSERT_TRUE(set.has_value());
  EXPECT_THAT(*set, EndsWith("; HttpOnly; SameSite=Strict"));
  EXPECT_THAT(*set, Not(HasSubstr("Path")));
  const std::string cookie = set->substr(0, set->find(';'));
  for (const std::string& field : {cookie, "a=b; " + cookie, cookie + "; a=b", "a=b;" + cookie}) {
    EXPECT_TRUE(keys_.Open("/tensorboard", "", field)) << field;
    EXPECT_TRUE(keys_.Open("/tensorboard/", "", field));
    EXPECT_FALSE(keys_.Open("/tensorboards", "", field));
    EXPECT_FALSE(keys_.Open("/v1/status", "", field));
    EXPECT_FALSE(keys_.Open("/metrics", "", field));
  }
  EXPECT_FALSE(keys_.Open("/tensorboard", "", "a=b"));
  EXPECT_FALSE(keys_.Open("/tensorboard", "", cookie.substr(1)));
  EXPECT_FALSE(keys_.Open("/tensorboard", "", ";;; ;"));
}

}  // namespace
}  // namespace tfos::control
