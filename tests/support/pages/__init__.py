"""Pages and pictures: of a report in a browser, and of the documentation that tests write."""
