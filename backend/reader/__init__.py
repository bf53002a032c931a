"""The extractive reader of DPR (Karpukhin et al. 2020, section 6): trained on a run, it reads a run's passages and answers."""
