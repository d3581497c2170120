"""Strip-mining: tiles larger than the registers become loops over chunks."""
