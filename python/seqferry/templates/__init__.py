"""Pages of HTML: the templates, and the one environment that renders them."""
