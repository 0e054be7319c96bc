"""The page without a mouse, and after the cluster's end, in a real browser."""

from __future__ import annotations

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from support.page.browsers import browser, complaints, text_of
from support.page.shown import row
from support.waiting import wait_for

FOCUSED = "return document.activeElement.dataset.node ?? document.activeElement.id"


def press(driver, *keys):
    ActionChains(driver).send_keys(*keys).perform()


def focused(driver):
    return driver.execute_script(FOCUSED)


def test_the_keys_lead_from_the_page_and_from_the_filter_to_the_nodes(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: row(driver, "worker:0"), "the nodes")
        press(driver, Keys.ARROW_DOWN)
        assert focused(driver) == "0"
        press(driver, Keys.ARROW_DOWN, Keys.ENTER)
        wait_for(lambda: "worker:0" in text_of(driver, "#panel-title"), "the panel")
        press(driver, Keys.ESCAPE)
        press(driver, "/", "worker")
        assert focused(driver) == "filter"
        press(driver, Keys.ARROW_DOWN)
        assert focused(driver) == "1"
        press(driver, Keys.ENTER)
        wait_for(lambda: "worker:0" in text_of(driver, "#panel-title"), "the panel again")
        press(driver, Keys.ESCAPE, "/", " nobody")
        assert text_of(driver, "#no-match") == "No node matches."
        press(driver, Keys.ESCAPE)
        assert focused(driver) != "filter"
        assert driver.find_element(By.ID, "filter").get_attribute("value") == ""
        assert row(driver, "chief:0")
        assert not driver.find_element(By.ID, "no-match").is_displayed()
        driver.execute_script("document.getElementById('nodes').focus()")  # As the skip link does.
        press(driver, Keys.ENTER)
        assert focused(driver) in ("0", "1")
        assert complaints(driver) == []


def test_a_report_can_not_be_saved_once_nobody_answers_and_the_page_says_so(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: row(driver, "worker:0"), "the nodes")
        save = driver.find_element(By.ID, "save")
        assert save.is_enabled()
        for node_id in range(2):
            small.end(node_id)
        wait_for(lambda: text_of(driver, "#state") == "finished", "the end")
        small.coordinator.close()
        wait_for(lambda: not save.is_enabled(), "the button to be greyed out")
        assert "run `tfos report` before the end" in text_of(driver, "#notice")
        assert "Run `tfos report`" in save.get_attribute("title")
