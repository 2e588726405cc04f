"""Browser tools: tabs, pages, clicks and screenshots, built on the extension's few commands."""
