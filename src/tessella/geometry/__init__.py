"""Where a problem lives: boxes, shapes, implicit ones, clouds of points, divided domains."""
