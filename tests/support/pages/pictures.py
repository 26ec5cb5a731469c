"""Reference pictures of a report, and how far another one is from them: `make report-pictures` takes them again.

Text is as wide as a machine's fonts make it, so a picture is compared where a probe is as wide as it was. The browser
decodes and compares: no further package.
"""

import base64
import json
import sys
import tempfile
from pathlib import Path

from cutover.reconcile.report import page
from cutover.reconcile.result.parts import RecordBehind
from cutover.reconcile.result.report import Report
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report
from tests.support.servers import browser
from tests.support.servers.browser import Page

WIDTHS = (360, 800, 1400)
FOLDER = Path(__file__).parents[2] / "integration" / "report" / "pictures"
DOCS = Path(__file__).parents[3] / "docs" / "images"
SCALE = 0.25
BLOCK = 8  # pixels of a scaled picture
SHARE = 0.01
"""Share of a picture's blocks that may differ, since browsers round edges differently."""

_PROBE = """(() => {
  const one = document.createElement("span");
  one.textContent = "Streaming and batch differ 0123456789 EXPLAINED \\u2713 \\u2260";
  document.body.append(one);
  const wide = one.getBoundingClientRect().width;
  one.remove();
  return wide;
})()"""

_COMPARE = """(async (one, other, block) => {
  const open = async text => {
    const picture = new Image();
    picture.src = "data:image/png;base64," + text;
    await picture.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [picture.width, picture.height];
    const context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0);
    return context.getImageData(0, 0, picture.width, picture.height);
  };
  const [a, b] = [await open(one), await open(other)];
  if (a.width !== b.width || Math.abs(a.height - b.height) > 2) return 1;
  const [across, down] = [Math.ceil(a.width / block), Math.floor(Math.min(a.height, b.height) / block)];
  let different = 0;
  for (let y = 0; y < down; y++) for (let x = 0; x < across; x++) {
    let sum = 0, count = 0;
    for (let j = y * block; j < (y + 1) * block; j++)
      for (let i = x * block; i < Math.min((x + 1) * block, a.width); i++)
        for (let c = 0; c < 3; c++) {
          sum += Math.abs(a.data[4 * (j * a.width + i) + c] - b.data[4 * (j * b.width + i) + c]);
          count++;
        }
    if (sum / count > 16) different++;
  }
  return different / (across * down);
})"""


def unfold(tab: Page, file: Path, *, width: int, dark: bool = False) -> None:
    """Open a page with all of it unfolded."""
    tab.open(file, width=width, dark=dark)
    tab.run("document.querySelectorAll('details').forEach(one => { one.open = true })")


def probe_fonts(tab: Page) -> float:
    """Measure how wide a text is in the page's own font, CSS pixels."""
    return float(tab.run(_PROBE))


def kept_probe() -> float:
    """Read the width of the probe text on the machine that made the reference pictures."""
    return float(json.loads((FOLDER / "fonts.json").read_text(encoding="utf-8"))["probe"])


def measure_difference(tab: Page, path: Path, other: Path) -> float:
    """Return the share of blocks that look different, 0 to 1; 1 where the sizes differ. Leaves the page."""
    blank = path.with_suffix(".html")
    blank.write_text("<!doctype html><title>pictures</title>", encoding="utf-8")
    tab.open(blank)
    blank.unlink()
    texts = (json.dumps(base64.b64encode(file.read_bytes()).decode()) for file in (path, other))
    return float(tab.run(f"{_COMPARE}({', '.join(texts)}, {BLOCK})"))


def capture_all(tab: Page, file: Path) -> None:
    """Capture the reference pictures of the tests and those of the docs."""
    for width in WIDTHS:
        tab.open(file, width=width)
        tab.capture(FOLDER / f"{width}.png", whole=True, scale=SCALE)
    (FOLDER / "fonts.json").write_text(json.dumps({"probe": probe_fonts(tab)}) + "\n", encoding="utf-8")
    for name, width, height, dark in (
        ("report", 1100, 1250, False),
        ("report-dark", 800, 1250, True),
        ("report-narrow", 360, 900, False),
    ):
        tab.open(file, width=width, height=height, dark=dark)
        tab.capture(DOCS / f"{name}.png")
    unfold(tab, file, width=1100)
    filter_by(tab, "2013-01-01")
    tab.capture(DOCS / "report-tree.png", selector="section:has(#tree)")


def filter_by(tab: Page, text: str) -> None:
    """Type into the filter as a reader does, and wait until it has answered."""
    tab.run("(f => { f.focus(); f.select() })(document.getElementById('filter'))")
    tab.press("Backspace", code=8)
    tab.enter(text)
    tab.run("new Promise(done => setTimeout(done, 120))")


def flights_with_record() -> Report:
    """Return the flights, with the record behind their first difference."""
    first_difference = flights().finding.differences[0]
    record_behind = RecordBehind(
        window_start=str(first_difference.window_start),
        key=first_difference.key,
        cause="late",
        partition=2,
        offset=70_707,
        event_time=first_difference.window_start,
        epoch=17,
        reason=None,
    )
    return change_report(flights(), behind=(record_behind,))


def main() -> int:
    """Capture all pictures again."""
    if browser.PROGRAM is None:
        sys.stderr.write("Pictures of the report: expected a Chromium, found none.\nHint: apt-get install chromium\n")
        return 2
    with tempfile.TemporaryDirectory() as folder, browser.running_browser() as tab:
        file = Path(folder) / "flights.html"
        file.write_text(page.render_page(flights_with_record()), encoding="utf-8")
        capture_all(tab, file)
    sys.stdout.write(
        f"Pictures at {', '.join(map(str, WIDTHS))} pixels and those of docs/images: taken. Check them by eye.\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
