"""Records in; text, HTML or a Bokeh figure out. Same input, same output; no torch."""

from nbmem.render.bundles import (
    history_bundle,
    holders_bundle,
    leaks_bundle,
    ledger_bundle,
    reclaim_bundle,
    report_bundle,
    status_bundle,
    tensors_bundle,
)
from nbmem.render.html_cell import cell_report_html
from nbmem.render.html_ledger import ledger_html
from nbmem.render.html_tables import (
    history_table_html,
    status_html,
)
from nbmem.render.leaks import (
    holders_html,
    holders_text,
    leaks_html,
    leaks_text,
    reclaim_html,
    reclaim_text,
)
from nbmem.render.text_cell import cell_report_text
from nbmem.render.text_ledger import ledger_text
from nbmem.render.text_tables import (
    history_table_text,
    status_text,
)

__all__ = [
    "cell_report_html",
    "cell_report_text",
    "history_bundle",
    "history_table_html",
    "history_table_text",
    "holders_bundle",
    "holders_html",
    "holders_text",
    "leaks_bundle",
    "leaks_html",
    "leaks_text",
    "ledger_bundle",
    "ledger_html",
    "ledger_text",
    "reclaim_bundle",
    "reclaim_html",
    "reclaim_text",
    "report_bundle",
    "status_bundle",
    "status_html",
    "status_text",
    "tensors_bundle",
]
