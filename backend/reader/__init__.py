"""The extractive reader of DPR (Karpukhin et al. 2020, section 6): it is trained on a run, and reads answers from a
run's passages.
"""
