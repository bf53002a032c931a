"""The colours of all charts: Okabe and Ito's first, distinguishable without red and green."""

BLUE, VERMILION, GREEN, PINK, GOLD, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9"
COLOURS = (BLUE, VERMILION, GREEN, PINK, GOLD, SKY, "#8c564b", "#7f3c8d")
