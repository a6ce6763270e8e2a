"""The pages of the site say what happens; no Sphinx and no browser is needed to know it."""

import json
import re
from urllib.parse import unquote

import pytest
from docs.builder import drawings, examples, reference
from docs.builder.executed import blocks, run_blocks
from docs.builder.pages import ROOT, SITE, sources, with_sections

import tessella as ts

PAGES = {str(path.relative_to(SITE)): path for path in sorted(SITE.rglob("*.md"))}
RUN = [name for name, path in PAGES.items() if blocks(path.read_text())]


@pytest.mark.parametrize("name", RUN)
def test_the_lines_of_a_page_run(name, tmp_path):
    shown = run_blocks(blocks(PAGES[name].read_text()), tmp_path)
    assert any(one.text or one.pictures for one in shown)


def test_a_block_shows_what_it_prints_its_last_value_and_its_pictures(tmp_path):
    shown = run_blocks(
        [
            "x = 2\nprint(x)",
            "from pathlib import Path\nPath('a.png').write_bytes(b'')\nx + 1",
            "x = 5",
        ],
        tmp_path,
    )
    assert [one.text for one in shown] == ["2", "3", ""]
    assert [[path.name for path in one.pictures] for one in shown] == [[], ["a.png"], []]


def test_what_is_kept_is_run_again_once_it_changed(tmp_path):
    count = "with open('n', 'a+') as n:\n    n.write('x')\nlen(open('n').read())"
    assert run_blocks([count], tmp_path)[0].text == "1"
    assert run_blocks([count], tmp_path)[0].text == "1"
    assert run_blocks([count, "0"], tmp_path)[0].text == "2"


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_somewhere(name):
    made = {"api/index.md"}
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[name].read_text()):
        place = unquote(link.partition("#")[0])
        if not link.startswith(("http", "#")) and place not in made:
            assert (PAGES[name].parent / place).exists(), link


def test_every_page_is_in_the_table_of_contents():
    listed = set()
    for name, path in PAGES.items():
        for table in re.findall(r"```\{toctree\}\n:hidden:\n\n(.*?)```", path.read_text(), re.S):
            folder = (SITE / name).parent
            listed |= {(folder / line).resolve() for line in table.split()}
    made = {SITE / "gallery/index", SITE / "api/index"}
    assert listed - made == {SITE / page for page in sources().values()} - {SITE / "index"}


def test_a_section_of_another_text_is_taken_in():
    text = with_sections(SITE / "scale.md")
    assert "<!-- section" not in text and "growth.png" in text
    (picture,) = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert (SITE / picture).exists()


def test_every_public_name_has_one_page():
    names = [name for group in reference.grouped().values() for name in group]
    assert sorted(names) == sorted(set(ts.__all__) - {"__version__"})
    for name in names:
        assert reference.page(name).startswith(f"# {name}\n")


def test_a_list_of_names_in_a_docstring_stays_a_list():
    text = reference.markdown(
        "Sizes:\n\nfirst   how many *things*\n        there are\nsecond  `Box`", ""
    )
    assert (
        text
        == "Sizes:\n\n`first`\n: how many \\*things\\* there are\n\n`second`\n: [`Box`](Box.md)"
    )


def test_every_example_is_in_the_gallery_and_makes_a_notebook():
    names = [name for group in examples.sections().values() for name in group]
    assert sorted(names) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    for name in names:
        ran = examples.Ran(name, "", 0.0, None, "solution")
        text, code, last = json.loads(examples.notebook(ran))["cells"]
        assert last["source"] == "solution"
        assert text["source"].startswith(f"# {ran.words[0]}")
        assert '"""' not in code["source"].splitlines()[0]
        compile(code["source"], name, "exec")


def test_an_example_is_run_and_its_solution_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = examples.run_example("torsion", tmp_path / "torsion")
    assert ran.printed and ran.seconds > 0 and ran.last == "solution"
    assert ran.picture.stat().st_size > 10_000


@pytest.mark.parametrize("draw", [drawings.flow, drawings.cell, drawings.merge_tree])
def test_drawings_are_those_of_their_script(draw):
    assert (drawings.FOLDER / f"{draw.__name__}.svg").read_text() == draw()
