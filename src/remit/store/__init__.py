"""Where a journal lives: one seam, four stores, one behaviour suite."""
