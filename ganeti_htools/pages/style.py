"""The style of pages: for phones, screens and paper, light and dark. It loads nothing."""

from base64 import b64encode
from hashlib import sha256

# Text has a contrast of at least 4.5 to its ground, lines and bars one of 3 (WCAG AA).
LIGHT = {
    "ground": "#ffffff",
    "track": "#eef0f3",
    "text": "#1a1d21",
    "quiet": "#50565e",
    "line": "#7d848d",
    "bar": "#2563a8",
    "high": "#a66300",
    "full": "#b3261e",
    "alarm": "#a3211b",
}
DARK = {
    "ground": "#16191d",
    "track": "#262b31",
    "text": "#eceff2",
    "quiet": "#b3bac2",
    "line": "#7e8790",
    "bar": "#6aa9ea",
    "high": "#e0a030",
    "full": "#ff7a6e",
    "alarm": "#ff9d93",
}


def _colours(scheme: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in scheme.items())


STYLE = f"""
:root{{color-scheme:light dark;{_colours(LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{{_colours(DARK)}}}}}
@media print{{:root{{color-scheme:light;{_colours(LIGHT)}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;padding:1rem;max-width:75rem;font:1rem/1.45 system-ui,sans-serif;
 color:var(--text);background:var(--ground);overflow-wrap:anywhere}}
h1{{font-size:1.6rem;line-height:1.2;margin:.2rem 0 .6rem}}
h2{{font-size:1.25rem;margin:2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}}
h3{{font-size:1rem;margin:1.2rem 0 .4rem}}
p,ul{{margin:.4rem 0;max-width:50rem}}
ul{{padding-left:1.2rem}}
.quiet{{color:var(--quiet)}}
.alarm{{color:var(--alarm);font-weight:600}}
.answer{{font-size:1.2rem;line-height:1.35;font-weight:600;margin:.8rem 0}}
.step{{border-left:.25rem solid var(--line);padding-left:.8rem;margin:.6rem 0}}
.step p{{margin:0}}
pre{{margin:.2rem 0;padding:.4rem .6rem;background:var(--track);border-radius:.4rem;white-space:pre-wrap;
 user-select:all;-webkit-user-select:all;max-width:50rem}}
pre code{{white-space:inherit;font-size:.85rem}}
summary{{cursor:pointer;padding:.3rem 0}}
.mark{{display:inline-block;border:1px solid var(--line);border-radius:.4rem;padding:0 .4rem;
 margin-left:.4rem;font-size:.8rem;font-weight:400}}
.mark.alarm{{border-color:var(--alarm);font-weight:600}}
.facts{{display:flex;flex-wrap:wrap;gap:.6rem;margin:.8rem 0;padding:0;list-style:none;max-width:none}}
.facts li{{border:1px solid var(--line);border-radius:.4rem;padding:.4rem .8rem;font-size:.85rem}}
.facts b{{display:block;font-size:1.15rem;font-variant-numeric:tabular-nums}}
.node{{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:0 1rem;font-size:.85rem;padding:.4rem 0;
 border-bottom:1px solid var(--track);font-variant-numeric:tabular-nums}}
.node h3,.node p{{margin:0;grid-column:1/-1}}
.node h3{{font-size:.95rem}}
.node div{{display:flex;flex-wrap:wrap;justify-content:space-between;align-content:start;gap:0 .5rem}}
.figures{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(17rem,100%),1fr));gap:0 1.5rem}}
text{{fill:var(--text);font-size:.8rem}}
.columns text{{text-anchor:middle}}
.row{{display:grid;grid-template-columns:3.6rem minmax(3rem,1fr) 6.2rem;gap:.5rem;align-items:center;
 font-size:.85rem;font-variant-numeric:tabular-nums}}
.long .row{{grid-template-columns:minmax(6rem,26rem) minmax(3rem,1fr) 9.6rem}}
.row span:last-child{{text-align:right}}
svg{{display:block;width:100%;overflow:visible}}
.track{{fill:var(--track)}}
.bar{{fill:var(--bar)}}
.high{{fill:var(--high)}}
.full{{fill:var(--full)}}
.pale{{opacity:.35}}
.was{{fill:var(--text)}}
figure{{margin:.6rem 0 1rem}}
figcaption{{font-size:.9rem;margin-bottom:.3rem}}
.ends{{display:flex;justify-content:space-between;font-size:.85rem;color:var(--quiet)}}
.wide{{overflow-x:auto;margin:.4rem 0}}
table{{border-collapse:collapse;font-size:.85rem;line-height:1.3;min-width:min(100%,40rem)}}
caption{{text-align:left;color:var(--quiet);padding:.2rem 0}}
th,td{{text-align:left;vertical-align:top;padding:.25rem 1rem .25rem 0;border-bottom:1px solid var(--track);
 unicode-bidi:isolate;font-weight:400;
 max-width:26rem;overflow-wrap:break-word}}
thead th{{font-weight:600;border-bottom:1px solid var(--line);
 overflow-wrap:normal}}
td.number,th.number{{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}}
code{{font-family:ui-monospace,monospace;font-size:.8rem;white-space:nowrap}}
@media screen and (max-width:40rem){{th,td{{max-width:13rem}}
 .long .row{{grid-template-columns:1fr auto;margin-bottom:.3rem}}
 .long svg{{grid-row:2;grid-column:1/-1}}}}
@media (min-width:60rem){{.node{{grid-template-columns:minmax(0,1.3fr) repeat(3,minmax(0,1fr));
 grid-auto-flow:column;grid-template-rows:auto auto}}
 .node h3,.node p{{grid-column:1}}
 .node div{{grid-row:1/3}}}}
@media print{{code{{white-space:normal}}
 body{{padding:0;max-width:none;font-size:9.5pt}}
 .wide{{overflow:visible}}
 details::details-content{{content-visibility:visible;height:auto}}
 h2,h3,caption,figcaption{{break-after:avoid}}
 .node,.step,tr,figure,.row{{break-inside:avoid}}
 rect,circle{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
 @page{{margin:14mm}}}}
"""

_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()

# Nothing is loaded, sent or run; the style is the only one that counts.
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
