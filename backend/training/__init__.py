"""Training: encoders, losses, trainers, checkpoints and distillation."""
