"""The answer rule that is used where nobody names one. (The rules themselves import numpy, which settings should not.)"""

DEFAULT_RULE = "dpr"
