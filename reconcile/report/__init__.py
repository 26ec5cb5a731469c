"""The report: one comparison as a page that needs no network and no script."""
