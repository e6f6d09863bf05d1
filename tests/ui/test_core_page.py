"""What a user sees and does on a page that loads core widgets only, as Colab and Kaggle do."""

from __future__ import annotations

from lab_page import expect

LOAD = "import gc, torch, weakref\n%load_ext nbmem"
SHOW = "%gpumem panel"
FEATS = "%%gpumem make feats\nfeats = torch.ones(4 * 1024 * 1024)\nsee = weakref.ref(feats)"
MODEL = "%%gpumem\nmodel = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU())"
FAIL = (
    "see = []\ndef train():\n    acts = torch.ones(16 * 1024 * 1024)\n"
    "    see.append(weakref.ref(acts))\n    raise ValueError('stop')\ntrain()"
)
HOSTILE = "<img src=x onerror=alert(1)>"
ERRORS = ".jupyter-widgets-error-widget"
FITS = """() => {
  const inside = (node) => node.getBoundingClientRect().right <= window.innerWidth;
  const buttons = [...document.querySelectorAll('.nbmem-panel button')];
  const { scrollWidth, clientWidth } = document.documentElement;
  return scrollWidth === clientWidth && buttons.every(inside);
}"""
BRIGHTNESS = """(node) => {
  const style = getComputedStyle(node);
  return [style.color, style.backgroundColor].map(
    (text) => text.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3
  );
}"""


def tensors(panel):
    return panel.locator("select[title^='Live tensors']")


def leaks(panel):
    return panel.locator("select[title^='Leaks']")


def cells(panel):
    return panel.get_by_role("table").first


def answer(panel, text):
    return panel.get_by_role("status").filter(has_text=text)


def press(panel, name):
    panel.get_by_role("button", name=name, exact=True).click()


def test_the_whole_panel_stands_where_no_widget_of_ours_is_loaded(core):
    core.run(LOAD, SHOW, FEATS, MODEL)
    panel = core.panel(1)
    row = cells(panel).get_by_role("row").filter(has_text="make feats")
    expect(row).to_contain_text("[3]")
    expect(row).to_contain_text("+16.0")
    expect(tensors(panel)).to_contain_text("16.0 MiB")
    expect(panel.get_by_role("button", name="Live tensors · 3 · 20.0 MiB")).to_be_visible()
    expect(panel).to_contain_text("parameter")
    press(panel, "Ledger")
    expect(panel).to_contain_text("What torch's storages hold")
    expect(panel).to_contain_text("closes to the byte")
    press(panel, "Leaks")
    expect(panel).to_contain_text("No leak of 256 KiB or more")
    panel.locator("select[title^='Module']").select_option("model.0")
    panel.locator("select[title^='Cell to read']").select_option("[3] make feats")
    expect(panel).to_contain_text("[3] make feats · ok")
    expect(panel).to_contain_text("at its end user 16.0 MiB")
    assert ["anywidget"] == core.refused()
    expect(core.page.locator(ERRORS)).to_have_count(0)
    expect(panel.get_by_role("button", name="Chart or tables missing?")).to_have_count(0)
    expect(core.page.get_by_text("nbmem panel, as it was at")).to_be_hidden()


def test_del_frees_what_was_chosen_after_its_plan_and_says_so(core):
    core.run(LOAD, SHOW, FEATS, "other = torch.ones(1024 * 1024)", "other")
    panel = core.panel(1)
    expect(panel.get_by_role("button", name="del", exact=True)).to_be_disabled()
    tensors(panel).select_option(index=0)
    expect(panel).to_contain_text("feats · user, float32 [4194304] on cpu · 16.0 MiB")
    press(panel, "del feats (16.0 MiB)")
    said = "Freed 16.0 MiB (20.0 → 4.0 MiB, torch storages on cpu)."
    expect(answer(panel, said)).to_be_visible()
    assert "(None, False)" == core.ask("(see(), 'feats' in globals())")
    tensors(panel).select_option(index=0)
    press(panel, "del 1 (4.00 MiB)…")
    expect(panel.get_by_role("listitem").filter(has_text="drop Out[5]")).to_be_visible()
    press(panel, "Keep all")
    assert "True" == core.ask("'other' in globals()")
    press(panel, "del 1 (4.00 MiB)…")
    press(panel, "del 1 (4.00 MiB)")
    expect(answer(panel, "Freed 4.00 MiB")).to_be_visible()
    assert "(False, 0)" == core.ask(
        "('other' in globals(), sum(isinstance(each, torch.Tensor) for each in gc.get_objects()))"
    )


def test_the_collector_runs_and_what_is_gone_already_is_told(core):
    cycle = "ring = [torch.ones(4 * 1024 * 1024)]\nring.append(ring)\nloose = weakref.ref(ring[0])"
    core.run(LOAD, "gc.disable()", SHOW, FEATS, f"{cycle}\ndel ring")
    panel = core.panel(2)
    assert "True" == core.ask("loose() is not None")
    press(panel, "gc.collect()")
    expect(answer(panel, "Freed 16.0 MiB")).to_be_visible()
    assert "None" == core.ask("loose()")
    expect(tensors(panel).locator("option")).to_have_count(1)
    tensors(panel).select_option(index=0)
    expect(panel.get_by_role("button", name="del feats (16.0 MiB)")).to_be_enabled()
    core.ask("globals().pop('feats').shape")  # behind the panel's back
    press(panel, "del feats (16.0 MiB)")
    expect(answer(panel, "gone already")).to_be_visible()
    panel.get_by_placeholder("filter").fill("size>")
    panel.get_by_placeholder("filter").press("Enter")
    expect(panel).to_contain_text("lacks a value")


def test_a_leak_is_freed_after_its_plan_was_confirmed(core):
    core.run(LOAD, SHOW, FAIL)
    panel = core.panel(1)
    press(panel, "Leaks")
    expect(panel.get_by_role("button", name="Leaks · 1 · 64.0 MiB")).to_be_visible()
    expect(leaks(panel)).to_contain_text("traceback of cell [3]")
    leaks(panel).select_option(index=0)
    press(panel, "Free 64.0 MiB…")
    expect(panel.get_by_role("listitem").filter(has_text="%debug")).to_be_visible()
    assert "[True]" == core.ask("[each() is not None for each in see]")
    press(panel, "Free nothing")
    expect(answer(panel, "Nothing was freed.")).to_be_visible()
    press(panel, "Free 64.0 MiB…")
    press(panel, "Free 64.0 MiB")
    expect(answer(panel, "Freed 64.0 MiB (")).to_be_visible()
    assert "[None]" == core.ask("[each() for each in see]")
    expect(panel).to_contain_text("No leak of 256 KiB or more")


def test_the_keyboard_is_enough(core):
    core.run(LOAD, SHOW, FEATS)
    panel, keyboard = core.panel(1), core.page.keyboard
    expect(tensors(panel).locator("option")).to_have_count(1)
    panel.get_by_role("combobox", name="Order").or_(
        panel.locator("select[title^='Order']")
    ).first.focus()
    keyboard.press("Tab")
    expect(tensors(panel)).to_be_focused()
    keyboard.press("ArrowDown")
    button = panel.get_by_role("button", name="del feats (16.0 MiB)")
    expect(button).to_be_enabled()
    keyboard.press("Tab")
    expect(button).to_be_focused()
    keyboard.press("Enter")
    expect(answer(panel, "Freed 16.0 MiB")).to_be_visible()
    assert "None" == core.ask("see()")


def test_a_press_while_a_cell_runs_is_answered_after_it(core, tmp_path):
    gate = tmp_path / "gate"
    wait = (
        f"%%gpumem\nimport os, time\nwhile not os.path.exists({str(gate)!r}):\n"
        "    time.sleep(0.05)\nat_end = see() is not None"
    )
    core.run(LOAD, SHOW, FEATS)
    panel = core.panel(1)
    tensors(panel).select_option(index=0)
    button = panel.get_by_role("button", name="del feats (16.0 MiB)")
    expect(button).to_be_enabled()
    core.start(wait)
    expect(panel).to_contain_text("cell [4]")  # its figures, while it runs
    button.click()
    gate.touch()
    core.wait()
    expect(answer(panel, "Freed 16.0 MiB")).to_be_visible()
    assert "(True, None)" == core.ask("(at_end, see())")


def test_two_panels_keep_in_step_and_an_unloaded_one_says_so(core):
    core.run(LOAD, SHOW, SHOW, FEATS)
    first, second = core.panel(1), core.panel(2)
    for panel in (first, second):
        expect(tensors(panel)).to_contain_text("feats")
    tensors(first).select_option(index=0)
    press(first, "del feats (16.0 MiB)")
    expect(answer(first, "Freed 16.0 MiB")).to_be_visible()
    expect(tensors(second).locator("option")).to_have_count(0)
    core.run("%unload_ext nbmem")
    for index in (1, 2):
        expect(core.output(index)).to_contain_text("nbmem was unloaded here.")
        expect(core.panel(index)).to_have_count(0)
    assert "0" == core.ask("len(__import__('ipywidgets').widgets.widget._instances)")


def test_a_reloaded_page_shows_the_present_and_acts(core):
    core.run(LOAD, SHOW, FEATS)
    expect(tensors(core.panel(1))).to_contain_text("feats")
    core.reload()
    panel = core.panel(1)
    expect(cells(panel)).to_contain_text("make feats")
    tensors(panel).select_option(index=0)
    press(panel, "del feats (16.0 MiB)")
    expect(answer(panel, "Freed 16.0 MiB")).to_be_visible()
    assert "None" == core.ask("see()")
    core.reload(new_kernel=True)
    expect(core.output(1)).to_contain_text("the live figures need a running kernel")
    expect(core.page.get_by_text("nbmem panel, as it was at")).to_be_visible()
    expect(core.page.locator(ERRORS)).to_have_count(0)


def test_long_lists_end_in_a_sentence_and_can_be_filtered(core):
    many = "many = [torch.ones(256 * (n + 1)) for n in range(600)]"
    blocks = (
        "import nbmem\nfor n in range(60):\n"
        "    code = '\\n' * n + 'with nbmem.measure(f\"block {n}\", scan=False): pass'\n"
        "    exec(compile(code, 'blocks', 'exec'))"
    )
    core.run(LOAD, SHOW, many, blocks)
    panel = core.panel(1)
    expect(tensors(panel).locator("option")).to_have_count(200)
    expect(panel).to_contain_text("400 more are not listed: filter to see them.")
    expect(cells(panel)).to_contain_text("block 59")
    expect(panel).to_contain_text("30 older are not listed")
    box = panel.get_by_placeholder("filter")
    box.fill("many[7]")
    box.press("Enter")
    expect(tensors(panel).locator("option")).to_have_count(1)
    box.fill("nobody")
    box.press("Enter")
    expect(panel).to_contain_text("Nothing matches the filter.")


def test_a_hostile_name_is_shown_as_text(core):
    core.run(LOAD, SHOW, f"%%gpumem {HOSTILE}\nglobals()[{HOSTILE!r}] = torch.ones(1024 * 1024)")
    panel = core.panel(1)
    expect(tensors(panel)).to_contain_text("onerror")
    expect(cells(panel)).to_contain_text(HOSTILE)
    tensors(panel).select_option(index=0)
    expect(panel).to_contain_text("float32 [1048576] on cpu")
    panel.locator("select[title^='Cell to read']").select_option(index=1)
    expect(panel).to_contain_text(f"[3] {HOSTILE} · ok")
    panel.locator("select[title^='Group']").select_option("by name")
    tensors(panel).select_option(index=0)
    press(panel, "held by")
    expect(panel.get_by_role("region", name="What holds the chosen tensors")).to_be_visible()
    expect(core.page.locator("img")).to_have_count(0)


def test_the_panel_fits_a_narrow_page_and_a_dark_one(core):
    name = "a_rather_long_name_of_a_variable_that_holds_activations_of_the_last_layer"
    core.run(LOAD, SHOW, FEATS, FAIL, f"%%gpumem\n{name} = torch.ones(2 ** 20)")
    panel = core.panel(1)
    for title in ("Leaks", "Ledger"):
        press(panel, title)
    expect(leaks(panel)).to_contain_text("traceback")
    expect(panel).to_contain_text("closes to the byte")
    tensors(panel).select_option(index=1)
    leaks(panel).select_option(index=0)
    press(panel, "Free 64.0 MiB…")
    expect(panel.get_by_role("listitem").first).to_be_visible()
    for width in (1000, 350):
        core.page.set_viewport_size({"width": width, "height": 1400})
        core.page.wait_for_function(FITS)
    core.page.evaluate("() => { document.body.classList.add('dark'); return 0; }")
    back = core.page.locator("body").evaluate(BRIGHTNESS)[1]
    for part in ("td", "th", "select", ".nbmem-title", "li"):
        ink = panel.locator(part).first.evaluate(BRIGHTNESS)[0]
        assert ink - back > 120, part
    assert panel.locator("select").first.evaluate(BRIGHTNESS)[1] < 80


def test_who_wants_the_full_panel_there_finds_the_way_back(core):
    core.run(LOAD, "%config NbMem.panel = 'full'", SHOW, FEATS)
    panel = core.panel(2)
    expect(panel.locator(ERRORS).first).to_be_visible()
    press(panel, "Chart or tables missing? Show the plain panel")
    expect(panel.locator(ERRORS)).to_have_count(0)
    expect(cells(panel)).to_contain_text("make feats")
    expect(panel.get_by_role("button", name="Chart or tables missing?")).to_be_hidden()
