"""What `tileir tune` is made of: files as problems, progress, reports and pictures."""
