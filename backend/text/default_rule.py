"""The default answer-matching rule. It is in a separate module because the rules import NumPy, which settings modules
should not.
"""

DEFAULT_RULE = "dpr"
