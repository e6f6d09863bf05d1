"""A piece of HTML taken apart, for tests of what a notebook shows."""

from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "meta", "link"}


class Page(HTMLParser):
    """Elements and visible text of a piece of HTML; refuses tags that are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.words, self._open = [], [], [], []
        self.feed(html)
        self.close()
        assert [] == self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert tag == self._open.pop()

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(f"{word} " for word in self.words).split())
