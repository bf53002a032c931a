"""DPR's extractive reader (Karpukhin et al. 2020, section 6). It is trained on a run, and extracts answers from the
passages of a run.
"""
