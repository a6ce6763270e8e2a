"""The built site in a real browser: `python -m docs.builder.browser [--pictures FOLDER]`.

Every page is opened in headless Chromium at the width of a desktop and of a phone, in the light and
in the dark. What was checked is printed line by line, and anything wrong fails.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from playwright.sync_api import Browser, Page, TimeoutError, sync_playwright

import tessella as ts
from tessella.solution.viewer import Viewer

SITE = Path(__file__).parents[2] / "out" / "site"
WIDTHS = {"desktop": 1280, "phone": 390}

READABLE = 4.5
"""Contrast of text and ground that WCAG asks for (AA)."""

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()

WIDE = """() => [...document.querySelectorAll(".bd-article *")].filter((element) => {
  if (element.getBoundingClientRect().right <= window.innerWidth + 1) return false;
  for (let e = element; !e.matches(".bd-article"); e = e.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(e).overflowX)) return false;
  return true;
}).map((element) => element.outerHTML.slice(0, 60))"""
"""What sticks out of the page and cannot be scrolled to."""

SHOWN = (
    *("index", "start", "state/domains", "choose", "trust", "gallery/index"),
    *("gallery/capacitor", "method", "speed", "inside", "api/Method"),
)
"""Pages of which pictures are taken when asked for."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


class Watched:
    """A page of the browser that notes what goes wrong on it."""

    def __init__(self, browser: Browser, width: int, dark: bool, address: str) -> None:
        self.address = address
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
        self.page: Page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda said: self.note(said.type == "error", said.text))
        self.page.on("pageerror", lambda error: self.note(True, str(error)))
        self.page.on("request", lambda request: self._leaves(request.url))
        self.page.on(
            "response",
            lambda answer: self.note(answer.status >= 400, f"{answer.status} {answer.url}"),
        )

    def note(self, bad: bool, text: str) -> None:
        if bad:
            self.wrong.append(f"{urlsplit(self.page.url).path}: {text}")

    def _leaves(self, url: str) -> None:
        at_home = url.startswith((self.address, "data:", "blob:", "about:"))
        self.note(not at_home, f"asks for {url}")

    def open(self, path: str) -> None:
        self.page.goto(f"{self.address}/{path}", wait_until="load")
        self.page.wait_for_function(
            "!document.querySelector('.math') || document.querySelector('mjx-container')"
        )


def pages() -> list[str]:
    found = (path.relative_to(SITE) for path in SITE.rglob("*.html"))
    return sorted(str(path) for path in found if not str(path).startswith("_"))


def check_pages(watched: Watched, paths: list[str]) -> None:
    """Pictures, mathematics, width and contrast of every page."""
    for path in paths:
        watched.open(path)
        page = watched.page
        page.evaluate("document.querySelectorAll('img').forEach(i => i.loading = 'eager')")
        page.wait_for_function("[...document.images].every(i => i.complete)")
        broken = page.evaluate(
            "[...document.images].filter(i => !i.naturalWidth).map(i => i.getAttribute('src'))"
        )
        watched.note(bool(broken), f"pictures do not load: {broken}")
        errors = page.locator("mjx-merror, .math:not(:has(mjx-container))").count()
        watched.note(errors > 0, f"{errors} formulas are wrong")
        wide = page.evaluate(WIDE)
        watched.note(bool(wide), f"wider than the screen: {wide[:3]}")
        if path != "search.html":
            texts = page.evaluate(CONTRAST)
            watched.note(len(texts) < 5, "hardly any text is to be seen")
            for text, ratio in texts:
                watched.note(ratio < READABLE, f"contrast {ratio:.1f} of {text!r}")


def check_search(watched: Watched) -> int:
    """Search as a visitor does."""
    watched.open("search.html?q=Helmholtz")
    watched.page.wait_for_selector("#search-results li", timeout=20_000)
    watched.page.wait_for_timeout(500)
    return watched.page.locator("#search-results li a").count()


def check_copy(watched: Watched) -> str:
    """Press the first button beside a block of code."""
    watched.open("start.html")
    block = watched.page.locator("div.highlight-python").first
    block.hover()
    block.locator("button.copybtn").click()
    return str(watched.page.evaluate("navigator.clipboard.readText()"))


def check_dark(watched: Watched) -> str:
    """The theme that the visitor's system asks for."""
    watched.open("index.html")
    return str(watched.page.evaluate("document.documentElement.dataset.theme"))


def check_viewer(browser: Browser, say: Callable[[bool, str], None]) -> None:
    """Heat on a square in the viewer: time, slices, surface, subdomains, probe."""
    with viewed_heat() as viewer:
        for name, width in WIDTHS.items():
            watched = Watched(browser, width, name == "phone", viewer.url.rstrip("/"))
            page = watched.page
            watched.open("")
            page.wait_for_selector("body[data-ready]")
            seen = [_look(page, "#map")]
            page.locator("#at-t").fill("0.1")
            seen.append(_look(page, "#map"))
            page.check("#cells")
            seen.append(_look(page, "#map"))
            page.select_option("#layer", "residual")
            seen.append(_look(page, "#map"))
            say(
                len(set(seen)) == 4, f"viewer, {name}: time, subdomains and residual change the map"
            )
            box = page.locator("#map").bounding_box() or {}
            page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            say(_appears(page, "#probe", "residual = "), f"viewer, {name}: a point is probed")
            page.select_option("#layer", "value")
            page.check("#raised")
            before = _look(page, "#surface")
            page.mouse.move(box["x"] + 60, box["y"] + 60)
            page.mouse.down()
            page.mouse.move(box["x"] + 120, box["y"] + 80)
            page.mouse.up()
            say(_look(page, "#surface") != before, f"viewer, {name}: the surface turns")
            page.select_option("#axes", "[0]")
            line = _look(page, "#map") not in seen and page.locator("#sliders input").count() == 2
            say(line, f"viewer, {name}: a line is cut out")
            over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            say(over <= 1 and not watched.wrong, f"viewer, {name}: no errors {watched.wrong}")
            watched.context.close()


def _look(page: Page, canvas: str) -> str:
    """The picture in a canvas, once it stands still."""
    page.wait_for_selector("body[data-ready]")
    return str(page.eval_on_selector(canvas, "canvas => canvas.toDataURL()"))


def _appears(page: Page, where: str, text: str) -> bool:
    try:
        page.locator(where, has_text=text).wait_for(timeout=10_000)
    except TimeoutError:
        return False
    return True


@contextmanager
def viewed_heat() -> Iterator[Viewer]:
    domain = ts.Box(x=(0, 1), y=(0, 1), t=(0, 0.1))
    heat = ts.Problem(
        domain,
        ts.Equation(ts.D(t=1) - ts.Laplacian()),
        [
            ts.Dirichlet(0.0),
            ts.Initial(lambda p: np.sin(np.pi * p[:, 0]) * p[:, 1] * (1 - p[:, 1])),
        ],
        name="heat",
    )
    solution = ts.solve(heat, coupling="interfaces", subdomains=2, features=80, estimate=False)
    viewer = solution.view(browser=False)
    try:
        yield viewer
    finally:
        viewer.close()


def take_pictures(watched: Watched, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in SHOWN:
        watched.open(f"{path}.html")
        watched.page.screenshot(
            path=folder / f"{path.replace('/', '-')}-{name}.png", full_page=True
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--chromium", default=shutil.which("chromium"), help="the browser's program"
    )
    parser.add_argument("--pictures", type=Path, help="folder for pictures of some pages")
    given = parser.parse_args()
    if given.chromium is None or not (SITE / "index.html").exists():
        sys.exit("error: needs Chromium (apt-get install chromium) and a built site (make docs)")
    wrong: list[str] = []

    def say(good: bool, text: str) -> None:
        print("ok  " if good else "BAD ", text, flush=True)
        if not good:
            wrong.append(text)

    with served(SITE) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given.chromium, args=["--no-sandbox"])
        for name, width in WIDTHS.items():
            for dark in (False, True):
                watched = Watched(browser, width, dark, address)
                check_pages(watched, pages())
                how = f"{name}, {width} px, {'dark' if dark else 'light'}"
                say(
                    not watched.wrong,
                    f"{how}: {len(pages())} pages without console errors, requests to other "
                    f"machines, missing pictures, wrong formulas, faint text or sideways scrolling",
                )
                for text in watched.wrong:
                    print("      ", text)
                if given.pictures and (name == "desktop") != dark:
                    take_pictures(watched, given.pictures, name)
                watched.context.close()
        watched = Watched(browser, WIDTHS["desktop"], True, address)
        found = check_search(watched)
        say(found >= 3, f"search finds Helmholtz on {found} pages")
        copied = check_copy(watched)
        say("import tessella as ts" in copied, "code is copied by its button")
        say(check_dark(watched) == "dark", "the dark theme follows the system")
        check_viewer(browser, say)
        browser.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
