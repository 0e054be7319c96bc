"""What stands in HTML, for those that read it."""

from __future__ import annotations

import html.parser


class Balanced(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def text_in(said):
    """The text of HTML whose elements all end."""
    parsed = Balanced()
    parsed.feed(said)
    parsed.close()
    assert not parsed.open
    return parsed.text
