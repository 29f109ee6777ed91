"""Words in running text: keywords, inflections, lengths and ends of texts."""
