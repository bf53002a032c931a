"""The colours of all charts. The first ones are the palette of Okabe and Ito, which people who cannot distinguish red
and green can use.
"""

BLUE, VERMILION, GREEN, PINK, GOLD, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9"
BROWN, PURPLE = "#8c564b", "#7f3c8d"
COLOURS = (BLUE, VERMILION, GREEN, PINK, GOLD, SKY, BROWN, PURPLE)
HOLLOW = "#ffffff"  # the inside of points that are based on few questions; their outline has the run's colour
