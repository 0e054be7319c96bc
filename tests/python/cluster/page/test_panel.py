"""The page's panel of a node, in a real browser: what it writes, and its stacks at a click."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from support.page.browsers import browser, complaints, looks, text_of, wait_for_looks
from support.page.shown import CLICK
from support.page.simulated_cluster import SimulatedCluster
from support.page.talking_node import TalkingNode
from support.waiting import wait_for

WORKER = "tr[data-node='1']"
AT_END = """const o = document.querySelector('#output');
    return o.scrollHeight - o.scrollTop - o.clientHeight <= 8"""
SCROLL_UP = """const o = document.querySelector('#output');
    o.scrollTop = 40; o.dispatchEvent(new Event('scroll'))"""
SCROLLED = "return document.querySelector('#output').scrollTop"
FOCUS = "document.querySelector(arguments[0]).focus()"


def lines(start, stop):
    return "".join(f"line {number}\n" for number in range(start, stop))


def open_panel(driver, cluster):
    """Shows the page, and selects the worker."""
    driver.get(cluster.link)
    wait_for_looks(driver)
    driver.execute_script(CLICK, WORKER)


def wait_for_output(driver, text):
    wait_for(
        lambda: text in text_of(driver, "#output"),
        lambda: f"{text}: {text_of(driver, '#panel')[-1000:]} {complaints(driver)}",
    )


def is_shown(driver, selector):
    return driver.find_element(By.CSS_SELECTOR, selector).is_displayed()


def test_the_output_of_a_node_comes_and_grows(small):
    with TalkingNode(small, 1) as node, browser() as driver:
        driver.get(small.link)
        wait_for_looks(driver)
        assert not is_shown(driver, "#panel") and node.asked == []
        node.write(lines(0, 300))
        driver.execute_script(CLICK, WORKER)
        wait_for_output(driver, "line 299")
        first = node.asked[0]
        assert first["lines"] == 200 and first["after"] == -1
        assert text_of(driver, "#output").splitlines()[0] == "line 100"
        assert "Output of worker:0" in text_of(driver, "#panel-title")
        assert "tfos logs worker:0 --lines N" in text_of(driver, "#panel-earlier")
        second = node.await_question("output", 2)
        assert second["after"] == len(lines(0, 300)) and second["wait_ms"] > 0
        node.write("<b>no</b> <script>alert(1)</script> &amp; \x1b[31mred\x1b[0m\n")
        wait_for_output(driver, "<b>no</b> <script>alert(1)</script> &amp; red")
        assert not driver.find_elements(By.CSS_SELECTOR, "#output b, #output script")
        # As Keras writes its progress: over the same line, again and again.
        bar = " 1/9 [>........]"
        node.write(bar + "\b" * len(bar) + "\r 9/9 [=========]\nnext\n")
        wait_for_output(driver, "next")
        assert text_of(driver, "#output").splitlines()[-2:] == [" 9/9 [=========]", "next"]
        assert complaints(driver) == []


def test_follows_at_the_end_and_stays_where_a_reader_has_scrolled_to(small):
    with TalkingNode(small, 1) as node, browser() as driver:
        node.write(lines(0, 150))
        open_panel(driver, small)
        wait_for_output(driver, "line 149")
        assert driver.execute_script(AT_END) and not is_shown(driver, "#panel-end")
        node.write(lines(150, 300))
        wait_for_output(driver, "line 299")
        assert driver.execute_script(AT_END)
        driver.execute_script(SCROLL_UP)
        node.write(lines(300, 400))
        wait_for_output(driver, "line 399")
        assert driver.execute_script(SCROLLED) == 40
        driver.execute_script(CLICK, "#panel-end")
        assert driver.execute_script(AT_END)
        node.write(lines(400, 500))
        wait_for_output(driver, "line 499")
        assert driver.execute_script(AT_END)
        # The oldest lines go, and what is read stays in its place.
        middle = """const o = document.querySelector('#output');
            o.scrollTop = o.scrollHeight / 2; o.dispatchEvent(new Event('scroll'))"""
        seen = """const o = document.querySelector('#output').getBoundingClientRect();
            return document.caretRangeFromPoint(o.left + 20, o.top + 40).startContainer.data"""
        node.write(lines(500, 3000))
        wait_for_output(driver, "line 2999")
        driver.execute_script(middle)
        before = driver.execute_script(seen)
        node.write(lines(3000, 5600))
        wait_for_output(driver, "line 5599")
        shown = text_of(driver, "#output").split("\n")
        assert len([line for line in shown if line]) == 5000 and shown[0] == "line 600"
        assert driver.execute_script(seen) == before
        assert is_shown(driver, "#panel-earlier")
        assert complaints(driver) == []


def test_says_where_bytes_are_gone_and_that_the_node_has_ended(small):
    with TalkingNode(small, 1) as node, browser() as driver:
        node.write("first\n")
        open_panel(driver, small)
        wait_for_output(driver, "first")
        node.await_question("output", 2)
        node.write("x" * 1000, keep=False)
        node.write("last\n")
        wait_for_output(driver, "last")
        assert "... 1,000 bytes are gone" in text_of(driver, "#output")
        assert "x" * 10 not in text_of(driver, "#output")
        node.await_question("output", 3)
        node.write("its end\n", keep=True)
        node.end()
        wait_for(lambda: "The node has ended" in text_of(driver, "#panel-say"), "word of its end")
        assert text_of(driver, "#output").splitlines()[-1] == "its end"
        assert complaints(driver) == []


def test_a_refusal_is_said_in_its_words():
    with SimulatedCluster(2, max_lost_nodes=1) as cluster, browser() as driver:
        for node_id in range(2):
            cluster.run(node_id)
        driver.get(cluster.link)
        wait_for_looks(driver)
        cluster.lose(1)
        driver.execute_script(CLICK, WORKER)
        refused = "the node is lost, and its output is in its executor's log"
        wait_for(lambda: text_of(driver, "#panel-say") == refused, "a refusal")
        stack = driver.find_element(By.CSS_SELECTOR, "#panel-stack")
        wait_for(lambda: not stack.is_enabled(), "the page to know that it has no threads")


def test_after_the_end_a_panel_says_where_the_output_is():
    with browser() as driver:
        with SimulatedCluster(2) as cluster:
            cluster.run(1)
            driver.get(cluster.link)
            wait_for_looks(driver)
            cluster.fail(1, "ValueError: too cold", "the traceback")
            wait_for(lambda: text_of(driver, "#state") == "failed", "the end")
        driver.execute_script(CLICK, WORKER)
        said = "The cluster has ended. The output is in the stderr of executor 1 on "
        wait_for(lambda: text_of(driver, "#panel-say").startswith(said), "words of the end")


def test_stacks_come_at_a_click_and_only_the_harmless_ones(small):
    with TalkingNode(small, 1) as node, browser() as driver:
        open_panel(driver, small)
        assert not is_shown(driver, "#stack")
        driver.execute_script(CLICK, "#panel-stack")
        driver.execute_script(CLICK, "#panel-stack")  # It is asked once.
        question = node.await_question("gentle_stacks")
        assert "Asking" in text_of(driver, "#stack-say")
        outer = "  in outer\n" * 200
        others = "\nthread 8 'Thread-1'\n" + outer
        node.tell_stacks(
            question, f"thread 7 'MainThread'\n  in <module>\n{outer}    stuck()\n{others}"
        )
        wait_for(lambda: "stuck()" in text_of(driver, "#stack"), "the stacks")
        in_sight = """
            const stack = document.querySelector('#stack'), call = document.createRange();
            const at = stack.textContent.indexOf('stuck()');
            call.setStart(stack.firstChild, at);
            call.setEnd(stack.firstChild, at + 7);
            const box = stack.getBoundingClientRect(), line = call.getBoundingClientRect();
            return stack.scrollTop > 0 && line.top >= box.top && line.bottom <= box.bottom;"""
        assert driver.execute_script(in_sight), "the latest call of the main thread is in sight"
        assert "in <module>" in text_of(driver, "#stack")
        assert text_of(driver, "#stack-title").startswith("Stacks at ")
        assert not is_shown(driver, "#stack-say")
        driver.execute_script(CLICK, "#panel-stack")
        question = node.await_question("gentle_stacks", 2)
        node.tell_stacks(question, "somebody else has just asked", refused=True)
        wait_for(lambda: "has just asked" in text_of(driver, "#stack-say"), "a refusal")
        assert "stuck()" in text_of(driver, "#stack"), "those of before, with their time"
        driver.execute_script(CLICK, "#panel-stack")
        node.tell_stacks(node.await_question("gentle_stacks", 3), "thread 8\n")
        wait_for(lambda: "thread 8" in text_of(driver, "#stack"), "new stacks")
        assert {question["about"] for question in node.asked} == {"output", "gentle_stacks"}
        # They are of this node alone.
        driver.execute_script(CLICK, "tr[data-node='0']")
        assert not is_shown(driver, "#stack") and not is_shown(driver, "#stack-title")


def test_by_the_keyboard(small):
    with TalkingNode(small, 1) as node, browser() as driver:
        node.write("a line\n")
        driver.get(small.link)
        wait_for_looks(driver)
        driver.execute_script(FOCUS, WORKER)
        ActionChains(driver).send_keys(Keys.ENTER).perform()
        wait_for_output(driver, "a line")
        wait_for_looks(driver)
        focused = "return document.activeElement.dataset.node"
        assert driver.execute_script(focused) == "1", "where it was"
        driver.execute_script(FOCUS, "#panel-stack")
        ActionChains(driver).send_keys(Keys.ENTER).perform()
        node.tell_stacks(node.await_question("gentle_stacks"), "thread 1\n")
        wait_for(lambda: "thread 1" in text_of(driver, "#stack"), "the stacks")
        driver.execute_script(FOCUS, "#output")
        ActionChains(driver).send_keys(Keys.ESCAPE).perform()
        assert not is_shown(driver, "#panel")
        assert driver.execute_script(focused) == "1"
        assert text_of(driver, "#output") == ""
        # Its curves stay.
        assert "worker:0" in text_of(driver, "#legend")
        ActionChains(driver).send_keys(Keys.ENTER).perform()
        wait_for_output(driver, "a line")
        driver.execute_script(CLICK, "#panel-close")
        assert not is_shown(driver, "#panel")


def test_asks_once_at_a_time_and_not_in_the_background(small):
    with (
        TalkingNode(small, 0) as chief,
        TalkingNode(small, 1) as worker,
        browser() as driver,
    ):
        chief.write("of the chief\n")
        worker.write("of the worker\n")
        driver.get(small.link)
        wait_for_looks(driver)
        driver.execute_script(
            """const ask = window.fetch;
            const signals = new Set();  // Of requests that go on.
            window.openNow = () => [...signals].filter((signal) => !signal.aborted).length;
            window.mostOpen = 0;
            window.fetch = async (path, options) => {
              if (!path.startsWith("v1/output")) return ask(path, options);
              const mark = {get aborted() { return options.signal.aborted; }};
              signals.add(mark);
              window.mostOpen = Math.max(window.mostOpen, window.openNow());
              try { return await ask(path, options); } finally { signals.delete(mark); }
            };
            window.hide = (hidden) => {
              Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
              document.dispatchEvent(new Event("visibilitychange"));
            };"""
        )
        driver.execute_script(CLICK, WORKER)
        wait_for_output(driver, "of the worker")
        worker.await_question("output", 2)
        driver.execute_script(CLICK, "tr[data-node='0']")
        wait_for_output(driver, "of the chief")
        assert "of the worker" not in text_of(driver, "#output")
        chief.await_question("output", 2)
        assert driver.execute_script("return window.mostOpen") == 1
        driver.execute_script("window.hide(true)")
        wait_for(lambda: driver.execute_script("return window.openNow()") == 0, "the end of asking")
        asked = len(chief.asked)
        chief.write("in the background\n")
        assert "in the background" not in text_of(driver, "#output")
        driver.execute_script("window.hide(false)")
        wait_for_output(driver, "in the background")
        assert chief.asked[asked]["after"] == len("of the chief\n"), "it goes on where it was"
        driver.execute_script(CLICK, "#panel-close")
        wait_for(lambda: driver.execute_script("return window.openNow()") == 0, "the end of asking")
        assert driver.execute_script("return window.mostOpen") == 1


@pytest.mark.parametrize("dark", [False, True])
def test_fits_a_phone(small, dark):
    with TalkingNode(small, 1) as node, browser(380, 800, dark=dark) as driver:
        node.write("a_word_without_an_end" * 100 + "\n")
        open_panel(driver, small)
        wait_for_output(driver, "a_word_without_an_end")
        driver.execute_script(CLICK, "#panel-stack")
        node.tell_stacks(node.await_question("gentle_stacks"), "thread" * 100 + "\n")
        wait_for(lambda: "thread" in text_of(driver, "#stack"), "the stacks")
        widths = "return [document.documentElement.scrollWidth, innerWidth]"
        page, window = driver.execute_script(widths)
        assert page <= window


def test_a_report_has_no_panel(small, tmp_path):
    with browser() as driver:
        driver.get(small.link)
        wait_for_looks(driver)
        script = """const [path, done] = arguments;
            fetch(path, {headers: {Authorization: `Bearer ${sessionStorage.getItem("tfos-key /")}`}})
                .then((answer) => answer.text()).then(done)"""
        file = tmp_path / "report.html"
        file.write_text(driver.execute_async_script(script, "v1/report"))
        driver.get(file.as_uri())
        wait_for(lambda: looks(driver), "the report")
        driver.execute_script(CLICK, WORKER)
        assert is_shown(driver, "#details") and not is_shown(driver, "#panel")
        assert complaints(driver) == []
