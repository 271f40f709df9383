"""The page around the figures: its skeleton, its style, and the few kinds of HTML that it is made of.

Every function here takes plain text and escapes it; what it returns is HTML.
"""

import re
from dataclasses import dataclass
from html import escape

from pipelines.analysis import Table

STYLE = """
:root { color-scheme: light dark; --ink: #1d2126; --soft: #5c6570; --line: #d9dde2; --paper: #fcfcfa; --band: #f2f3f1; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6e8; --soft: #9aa3ad; --line: #3a4048; --paper: #16191d; --band: #1f2328; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 Charter, "Bitstream Charter", "Sitka Text", Cambria, Georgia, serif; }
main { max-width: 72rem; margin: 0 auto; padding: 3rem 1.5rem 5rem; }
article + article { margin-top: 5rem; border-top: 3px double var(--line); padding-top: 3rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; font-weight: 600; }
h2 { font-size: 1.3rem; margin: 3rem 0 .6rem; font-weight: 600; }
p, ul { max-width: 46rem; margin: .5rem 0; } ul { padding-left: 1.2rem; } li { margin: .3rem 0; }
.about, figcaption, .missing, caption { color: var(--soft); font-size: .9rem; }
.headline { font-size: 1.15rem; margin: 1.2rem 0; }
.missing { font-style: italic; }
figure { margin: 1rem 0 1.5rem; } figcaption { max-width: 52rem; margin-top: .5rem; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 4px; padding: .6rem; overflow-x: auto; }
.card img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font: .84rem/1.4 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif;
  font-variant-numeric: tabular-nums; border-top: 2px solid var(--ink); border-bottom: 2px solid var(--ink); }
th, td { padding: .32rem .55rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; border-bottom: 1px solid var(--ink); vertical-align: bottom; }
.label { text-align: left; } td.label { font-weight: 600; } td.label + td.label { font-weight: 400; }
tr.group td { border-top: 1px solid var(--line); } tr.pale td:not(:first-child) { color: var(--soft); }
.prose th, .prose td { white-space: normal; text-align: left; } .prose td.label { font-weight: 400; }
code, pre { font: .85rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
pre { background: var(--band); border-radius: 4px; padding: .8rem 1rem; overflow-x: auto; }
sup { line-height: 0; }
.swatch { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .45em; }
@media print { main { padding: 0; max-width: none; } figure, tr { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Article:
    """What the page says about one folder."""

    title: str
    html: str


def page(articles: list[Article]) -> str:
    """The whole document."""
    title = articles[0].title if len(articles) == 1 else f"{articles[0].title}, and {len(articles) - 1} more"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(f"<article>\n<h1>{escape(a.title)}</h1>\n{a.html}\n</article>" for a in articles)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(part for part in parts if part) + "\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{_text(text)}</p>' if kind else f"<p>{_text(text)}</p>"


def missing(what: str, command: str | None = None) -> str:
    """One sentence about data that are not there, and the command that makes them."""
    how = f" Run <code>{escape(command)}</code>" if command else ""
    return f'<p class="missing">{_text(what)}{how}</p>'


def bullets(items: list[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{_text(item)}</li>" for item in items) + "\n</ul>" if items else ""


def command(line: str) -> str:
    return f"<pre>{escape(line)}</pre>"


def figure(source: str, alt: str, caption: str) -> str:
    """A picture, given as a data URI, on a white card that reads the same in light and dark schemes."""
    picture = f'<div class="card"><img src="{source}" alt="{escape(alt)}"></div>'
    return f"<figure>\n{picture}\n<figcaption>{_text(caption)}</figcaption>\n</figure>"


def table(content: Table, colours: dict[str, str] | None = None, caption: str = "", prose: bool = False) -> str:
    """A table; names in the first column carry their colour, and a row without a name belongs to the one above."""

    def line(cells: list[str], tag: str) -> str:
        parts = []
        for column, text in enumerate(cells):
            kind = ' class="label"' if column < content.labels else ""
            swatch = f'<span class="swatch" style="background:{colour}"></span>' if (
                colour := (colours or {}).get(text) if column == 0 and tag == "td" else None
            ) else ""  # fmt: skip
            parts.append(f"<{tag}{kind}>{swatch}{_notation(text)}</{tag}>")
        return "".join(parts)

    rows = [f'<tr class="{"group" if row[0] else "pale"}">{line(row, "td")}</tr>' for row in content.rows]
    return (
        f'<div class="table{" prose" if prose else ""}"><table>'
        + (f"<caption>{escape(caption)}</caption>" if caption else "")
        + f"<thead><tr>{line(content.headings, 'th')}</tr></thead>\n<tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def _text(text: str) -> str:
    """Escaped text, in which a number stays on one line with its %."""
    return escape(text).replace(" %", "&nbsp;%")


def _notation(text: str) -> str:
    """Escaped text, with 10^-5 set as a power."""
    return re.sub(r"10\^(-?\d+)", lambda power: f"10<sup>{power[1].replace('-', '−')}</sup>", escape(text))
