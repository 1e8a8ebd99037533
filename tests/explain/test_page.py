"""The page of `tripont explain` in a real browser: what it shows, and that the keyboard is enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explain import browser as browsers
from tests.explain.browser import Browser
from tests.library_cpu import LIBRARY_CPU
from tripont.explain import page, report
from tripont.explain.measure import Timeline, measure
from tripont.explain.run import load

PROGRAM = """
!x = tensor<300x512xf32>
!w = tensor<512x512xf32>
module @attention {
  func.func @main(%x: !x, %w: !w) -> (tensor<300xf32>, !x) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : (!x, !w) -> !x
    %t = stablehlo.tanh %h : !x
    %e = stablehlo.exponential %t : !x
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
      : (!x, tensor<f32>) -> tensor<300xf32>
    %g = stablehlo.dot_general %e, %w, contracting_dims = [1] x [1] : (!x, !w) -> !x
    %n = stablehlo.negate %g : !x
    return %s, %n : tensor<300xf32>, !x
  }
}
"""

pytestmark = pytest.mark.skipif(bool(browsers.missing()), reason=browsers.missing())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    program = folder / "program.mlir"
    program.write_text(PROGRAM)
    (module,) = load(program, {"cpu": LIBRARY_CPU}, "", folder / "dump")
    timeline = measure(module.artifact_bytes(), "host")
    assert not timeline.reason
    result = folder / "explain.html"
    result.write_text(page.write_page(report.build(module, timeline)))
    return result


@pytest.fixture
def opened(browser: Browser, path: Path) -> Browser:
    browser.open(path)
    assert browser.run("return document.documentElement.dataset.ready") == "true"
    return browser


def chosen(browser: Browser) -> str:
    """The name of the chosen operation in the list."""
    return browser.run(
        "return document.querySelector('#list [aria-selected=true] b')?.textContent ?? ''"
    )


def focused(browser: Browser) -> str:
    return browser.run("return document.activeElement.id || document.activeElement.className")


def test_nothing_is_loaded_from_anywhere(opened: Browser, path: Path) -> None:
    assert opened.run("return performance.getEntriesByType('resource').map((e) => e.name)") == []
    assert opened.errors() == []
    text = path.read_text()
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:|#)", text)
    assert "@import" not in text
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket)\b", text)


def test_stages_of_the_chosen_fusion(opened: Browser) -> None:
    opened.run("document.querySelector('.row.c-row, .row.c-reduce').click()")
    name = chosen(opened)
    texts = opened.run("return [...document.querySelectorAll('.code')].map((c) => c.innerText)")
    hlo, ir, assembly = texts
    assert f"%{name} = " in hlo
    assert "tanh(" in hlo
    assert f"define void @{name}(" in ir
    assert assembly.lstrip().startswith(f"{name}:")
    summary = opened.run("return document.querySelector('.summary').innerText")
    assert "program" in summary
    assert "stablehlo" in summary
    assert "arena" in summary or "result" in summary
    hot = opened.run("return document.querySelector('.excerpt .hot').textContent")
    assert "stablehlo." in hot


def test_choosing_in_each_view_shows_in_the_others(opened: Browser) -> None:
    for view in (
        "#list .row:nth-child(2)",
        "#timeline .event:nth-child(n of .event)",
        "#graph .node:not(.edge)",
    ):
        opened.click(view)
        name = chosen(opened)
        assert name
        assert name in opened.run("return document.querySelector('.summary strong').textContent")
        assert name in opened.run(
            "return document.querySelector('.event[aria-selected=true]').title"
        )
        assert name in opened.run("return document.querySelector('.node.cursor text').textContent")


def test_search_and_list_by_keyboard(opened: Browser) -> None:
    opened.press("/")
    assert focused(opened) == "search"
    opened.type("gemm")
    assert "2 of" in opened.run("return document.querySelector('#count').textContent")
    opened.press("Enter")
    assert focused(opened) == "list"
    first = opened.run(
        "return document.querySelector('#list').getAttribute('aria-activedescendant')"
    )
    opened.press("ArrowDown")
    second = opened.run(
        "return document.querySelector('#list').getAttribute('aria-activedescendant')"
    )
    assert first != second
    assert chosen(opened) == "gemm"
    opened.press("Enter")
    assert "summary" in focused(opened)
    opened.press("/", "Escape")
    assert focused(opened) == "list"
    assert "of" not in opened.run("return document.querySelector('#count').textContent").split()


def test_nothing_matches(opened: Browser) -> None:
    opened.press("/")
    opened.type("no such thing")
    assert "Nothing matches" in opened.run("return document.querySelector('#list').textContent")


def test_next_and_previous_from_anywhere(opened: Browser) -> None:
    opened.press("l", "Home")
    names = [chosen(opened)]
    opened.press("g")
    for _ in range(2):
        opened.press("]")
        names.append(chosen(opened))
    assert len(set(names)) > 1
    opened.press("[")
    assert chosen(opened) == names[1]
    assert focused(opened) == "graph"


def test_graph_by_keyboard(opened: Browser) -> None:
    opened.press("l", "Home", "g")
    assert focused(opened) == "graph"
    label = "return document.querySelector('.node.cursor text').textContent"
    opened.press("ArrowDown")
    below = opened.run(label)
    assert below == chosen(opened)
    assert "fusion" in below
    opened.press("ArrowUp")
    assert opened.run(label) != below
    opened.press("ArrowDown", "Enter")
    labels = "return [...document.querySelectorAll('.node text:first-of-type')].map((t) => t.textContent)"
    assert "tanh" in opened.run(labels)
    assert opened.run("return document.querySelectorAll('#crumbs button').length") == 1
    opened.press("Backspace")
    assert "tanh" not in opened.run(labels)
    assert opened.run(label) == below
    before = opened.run("return document.querySelector('#graph svg g').getAttribute('transform')")
    opened.press("+")
    assert before != opened.run(
        "return document.querySelector('#graph svg g').getAttribute('transform')"
    )


def test_timeline_by_keyboard(opened: Browser) -> None:
    opened.press("t", "Home")
    assert focused(opened) == "timeline"
    first = chosen(opened)
    opened.press("ArrowRight")
    second = chosen(opened)
    assert first != second
    opened.press("ArrowLeft")
    assert chosen(opened) == first
    width = "return document.querySelector('.track').clientWidth"
    before = opened.run(width)
    opened.press("+")
    assert opened.run(width) > before
    opened.press("0")
    assert opened.run(width) == before
    assert "measured" in opened.run("return document.querySelector('#timelinenote').textContent")


def test_every_stage_can_be_chosen(opened: Browser) -> None:
    values = opened.run(
        "return [...document.querySelector('.column select').options].map((o) => o.value)"
    )
    assert {"all:stablehlo.mlir", "all:before_optimizations.txt", "all:thunk_sequence.txt"} <= set(
        values
    )
    assert {"own:ir-no-opt.ll", "own:s"} <= set(values)
    assert any("after_fuse" in v for v in values)
    for value in values:
        opened.run(
            "const s = document.querySelector('.column select'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('change'))",
            value,
        )
        assert opened.run("return document.querySelector('.code').textContent.length") > 10, value
    assert opened.errors() == []


def test_tab_reaches_everything_and_focus_is_visible(opened: Browser) -> None:
    opened.run("document.querySelector('.skip').focus()")
    reached = [focused(opened)]
    while "summary" not in reached and len(reached) < 60:
        opened.press("Tab")
        reached.append(focused(opened))
        outline = opened.run(
            "const s = getComputedStyle(document.activeElement);"
            "return [s.outlineStyle, s.outlineWidth]"
        )
        assert outline[0] != "none", reached
        assert outline[1] != "0px", reached
    wanted = ["skip", "theme", "help", "search", "order", "list", "graphchoice", "graph"]
    wanted += ["timeline", "splitter", "summary"]
    assert [r for r in reached if r in wanted] == wanted


def test_roles(opened: Browser) -> None:
    roles = opened.run(
        "return [...document.querySelectorAll('[role]')].map((e) => e.getAttribute('role'))"
    )
    assert {"listbox", "option", "application", "separator", "status", "region"} <= set(roles)
    unnamed = opened.run(
        "return [...document.querySelectorAll('button, select, input, [tabindex]')]"
        ".filter((e) => !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim()))"
        ".map((e) => e.outerHTML)"
    )
    assert unnamed == []


def test_splitter_theme_and_keys(opened: Browser) -> None:
    height = "return document.querySelector('#stages').clientHeight"
    before = opened.run(height)
    opened.run("document.querySelector('#splitter').focus()")
    opened.press("ArrowUp", "ArrowUp")
    assert opened.run(height) > before
    theme = "return getComputedStyle(document.body).backgroundColor"
    light = opened.run(theme)
    opened.press("d")
    assert opened.run(theme) != light
    opened.press("?")
    assert opened.run("return document.querySelector('#keys').open") is True
    opened.press("Escape")
    assert opened.run("return document.querySelector('#keys').open") is False


def test_a_link_to_an_operation(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.press("l", "End")
    last = chosen(browser)
    fragment = browser.run("return location.hash")
    assert fragment
    browser.open(path)
    browser.press("l", "Home")
    browser.open(path, fragment)
    assert chosen(browser) == last


def test_two_thousand_instructions(browser: Browser, tmp_path: Path) -> None:
    """A graph that large is drawn whole and walked through by keyboard."""
    lines = ["%v0 = stablehlo.add %a, %a : tensor<16x64xf32>"]
    for n in range(1, 1000):
        lines.append(
            f"%s{n} = stablehlo.transpose %v{n - 1}, dims = [1, 0] : (tensor<16x64xf32>) -> tensor<64x16xf32>"
            if n % 2
            else f"%s{n} = stablehlo.reshape %v{n - 1} : (tensor<16x64xf32>) -> tensor<64x16xf32>"
        )
        lines.append(
            f"%v{n} = stablehlo.dot_general %v{n - 1}, %b, contracting_dims = [1] x [0] : "
            "(tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>"
        )
    results = ", ".join(f"%s{n}" for n in range(1, 1000))
    types = ", ".join(["tensor<64x16xf32>"] * 999)
    body = "\n".join(lines)
    program = tmp_path / "large.mlir"
    program.write_text(
        f"func.func @main(%a: tensor<16x64xf32>, %b: tensor<64x64xf32>) -> ({types}) {{\n{body}\n"
        f"return {results} : {types}\n}}"
    )
    (module,) = load(program, {}, "", tmp_path / "dump")
    made = report.build(module, Timeline(reason="not measured"))
    text = page.write_page(made)
    assert len(text) < page.LARGEST_PAGE
    assert len(made["graphs"][made["entry"]]["nodes"]) > 1400
    path = tmp_path / "large.html"
    path.write_text(text)
    browser.open(path)
    assert browser.run("return document.querySelectorAll('.node').length") > 1400
    browser.press("l", "End", "g", "ArrowUp")
    before = chosen(browser)
    browser.press("ArrowUp")
    assert before
    assert chosen(browser) != before
    assert browser.errors() == []


def test_estimates_are_called_estimates(browser: Browser, tmp_path: Path) -> None:
    program = tmp_path / "program.mlir"
    program.write_text(PROGRAM)
    (module,) = load(program, {}, "", tmp_path / "dump")
    path = tmp_path / "page.html"
    path.write_text(page.write_page(report.build(module, Timeline(reason="there is no device"))))
    browser.open(path)
    note = browser.run("return document.querySelector('#timelinenote').textContent")
    assert "estimates" in note
    assert "there is no device" in note


def test_a_program_that_computes_nothing(browser: Browser, tmp_path: Path) -> None:
    program = tmp_path / "identity.mlir"
    program.write_text(
        "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    )
    (module,) = load(program, {}, "", tmp_path / "dump")
    path = tmp_path / "page.html"
    path.write_text(page.write_page(report.build(module, measure(module.artifact_bytes(), "host"))))
    browser.open(path)
    assert browser.run("return document.documentElement.dataset.ready") == "true"
    assert browser.errors() == []
