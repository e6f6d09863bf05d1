"""What a user reads and presses in the Leaks section, and two leaks to press on."""

from pages import Page
from panel_session import MIB, leak

DEBUG = "%debug for the error of [9]"


def error_leak(**more):
    return leak(
        1_224_065_679,  # 1.14 GiB
        "traceback of cell [9]",
        "train()",
        "local 'acts'",
        **{"cost": DEBUG, "created_by": 9, "count": 3, **more},
    )


def output_leak(**more):
    return leak(
        64 * MIB, "_", kind="stale_output", holder="throwaway_name", **{"created_by": 4, **more}
    )


def tree(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from tree(child)


def find(panel, text):
    kinds = [w for w in tree(panel.widget) if type(w).__name__ == "Button"]
    (found,) = [each for each in kinds if each.description == text]
    return found


def press(panel, text):
    assert not find(panel, text).disabled
    find(panel, text).click()


def hidden(panel):
    """Everything inside a box that is not shown."""
    boxes = [w for w in tree(panel.widget) if w.layout.display == "none"]
    return {id(inner) for box in boxes for inner in tree(box)}


def text(panel):
    unseen = hidden(panel)
    html = [
        w.value
        for w in tree(panel._leaks.widget)
        if type(w).__name__ == "HTML" and id(w) not in unseen
    ]
    return Page("".join(html)).text


def title(panel):
    return panel._leaks._button.description


def unfold(panel):
    panel._leaks._button.click()


def choose(panel, *positions):
    keys = [panel._found.keys[position] for position in positions]
    if hasattr(panel._body, "leak_rows"):
        panel._body.leak_rows.selected = keys
    else:
        panel._body._leak_rows.value = keys


def messages(widget, monkeypatch):
    """Returns a function: the states that the widget sent to its page since it was last asked."""
    sent = []

    def send(message, buffers=None):
        sent.append(message["state"])

    monkeypatch.setattr(widget, "_send", send)

    def since():
        told, sent[:] = list(sent), []
        return told

    return since
