"""Build the site: `python -m docs.builder`. Pages are assembled in out/pages, the site in out/site.

Everything that is shown is run; whatever fails, leads nowhere or explains nothing fails the build.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

from docs.builder.examples import write_gallery
from docs.builder.pages import write_pages
from docs.builder.reference import write_reference

OUT = Path(__file__).parents[2] / "out"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="run only what changed on pages, no examples"
    )
    given = parser.parse_args()
    pages, site = OUT / "pages", OUT / "site"
    if not given.keep:
        shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True, exist_ok=True)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=fresh) as executor:
        if not given.keep:
            write_gallery(pages / "gallery", executor)
        write_reference(pages / "api")
        write_pages(pages, executor)
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    return subprocess.run([*command, str(pages), str(site)]).returncode


if __name__ == "__main__":
    sys.exit(main())
