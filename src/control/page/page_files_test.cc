#include "control/page/page_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tfos::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(PageFilesTest, FindsThePageAndWhatItNames) {
  const auto index = FindPageFile("/");
  ASSERT_TRUE(index.has_value());
  EXPECT_EQ(index->content_type, "text/html; charset=utf-8");
  EXPECT_THAT(std::string(index->bytes), StartsWith("<!DOCTYPE html>"));
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name == "index.html") continue;
    const std::string target = "page/" + std::string(file.name);
    EXPECT_THAT(std::string(index->bytes), HasSubstr('"' + target + '"'));
    EXPECT_EQ(FindPageFile("/" + target)->bytes, file.bytes);
  }
  EXPECT_EQ(FindPageFile("/page/page.css")->content_type, "text/css; charset=utf-8");
  EXPECT_EQ(FindPageFile("/page/page.js")->content_type, "text/javascript; charset=utf-8");
}

TEST(PageFilesTest, ThereIsNothingElse) {
  for (const char* target : {"", "/page", "/page/", "/page/index.html", "/page/../page/page.js",
                             "/page/uplot/uplot.js", "/page.js", "//", "/v1/status"}) {
    EXPECT_FALSE(FindPageFile(target).has_value()) << target;
  }
}

TEST(PageFilesTest, AScriptCanStandInsideHtml) {
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name == "index.html" || file.name == "icon.svg") continue;
    EXPECT_THAT(std::string(file.bytes), Not(HasSubstr("</s"))) << file.name;
    EXPECT_THAT(std::string(file.bytes), Not(HasSubstr("<!--"))) << file.name;
  }
}

/// The content security policy lets no script run that stands in the page itself.
TEST(PageFilesTest, TheServedPageHasNothingInline) {
  const std::string index(FindPageFile("/")->bytes);
  for (const char* inline_code :
       {"<style", "<script>", "style=\"", "onclick", "http://", "https://"}) {
    EXPECT_THAT(index, Not(HasSubstr(inline_code)));
  }
}

TEST(PageFilesTest, AReportHoldsEverything) {
  const std::string html = ReportHtml(R"({"text":"</script><script>alert(1)</script>"})");
  EXPECT_THAT(html, HasSubstr(R"({"text":"\u003c/script>\u003cscript>alert(1)\u003c/script>"})"));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, Not(HasSubstr("\"page/")));
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name == "index.html" || file.name == "icon.svg") continue;
    EXPECT_THAT(html, HasSubstr(std::string(file.bytes))) << file.name;
  }
}

}  // namespace
}  // namespace tfos::control
