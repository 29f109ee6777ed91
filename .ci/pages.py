"""Measure the pages of the documentation in a headless browser, at the widths of a phone, a tablet and a laptop.

    python .ci/pages.py docs/_build/html [--browser /usr/bin/chromium]

No page may be wider than the screen. At 1,366 px no block of code may be wider than its box, no heading of a docstring may be
left as it was written ("Args:"), and code must have a button to copy it. What is wrong is printed, and the exit status is then 1.
It needs Chromium and the package `playwright`.
"""

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTHS = (400, 768, 1366)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MEASURE = r"""() => {
    const screen = document.documentElement, blocks = [...document.querySelectorAll("pre")];
    return {
        beyond: screen.scrollWidth - screen.clientWidth,
        wide: blocks.filter(block => block.scrollWidth > block.clientWidth + 1).map(block => block.innerText.slice(0, 60)),
        outside: blocks.filter(block => block.getBoundingClientRect().right > screen.clientWidth + 1).length,
        raw: (document.querySelector("article")?.innerText.match(/^(Args|Returns|Raises):/mg) || []).length,
        copy: blocks.length === 0 || document.querySelector("button.copybtn") !== null,
    };
}"""


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    args = parser.parse_args()
    pages = [page for page in sorted(args.root.resolve().rglob("*.html")) if "_modules" not in page.parts]
    wrong = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.browser, args=FLAGS)
        for width in WIDTHS:
            tab = browser.new_page(viewport={"width": width, "height": 900})
            for page in pages:
                tab.goto(page.as_uri())
                found = tab.evaluate(MEASURE)
                faults = [f"{found['beyond']} px beyond the screen"] if found["beyond"] > 0 else []
                faults += [f"{found['outside']} blocks outside it"] if found["outside"] else []
                if width == WIDTHS[-1]:
                    faults += [f"wider than its box: {text!r}" for text in found["wide"]]
                    faults += [f"{found['raw']} headings as written"] if found["raw"] else []
                    faults += [] if found["copy"] else ["no button to copy"]
                for fault in faults:
                    print(f"{page.relative_to(args.root.resolve())} at {width} px: {fault}")
                wrong += bool(faults)
    print(f"{len(pages)} pages at {len(WIDTHS)} widths: {wrong or 'nothing'} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
