"""Records in; text, HTML or a Bokeh figure out. Same input, same output; no torch."""
