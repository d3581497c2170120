"""Parts of `tileir tune`: files as problems, progress, reports and pictures."""
