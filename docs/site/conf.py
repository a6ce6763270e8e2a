"""How Sphinx builds the site from the pages that docs/builder has assembled."""

from tessella.version import __version__

project = "tessella"
author = "The tessella developers"
release = version = __version__
root_doc = "index"
exclude_patterns = ["**/ran", "ran"]
extensions = [
    "myst_parser",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_inline", "deflist"]
myst_heading_anchors = 3
nitpicky = True
html_theme = "pydata_sphinx_theme"
html_title = "tessella"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
copybutton_selector = "div.highlight-python pre, div.highlight-sh pre, div.highlight-pycon pre"
copybutton_exclude = ".linenos, .gp, .go"
html_sidebars = {page: [] for page in ("index", "start", "choose", "look", "speed", "scale")} | {
    page: [] for page in ("changelog", "contributing", "measurements")
}
html_theme_options = {
    "logo": {
        "text": "tessella",
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_persistent": ["search-button"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copyright = "The tessella developers, MIT licence"
