"""Learning: encoders, losses, trainers, checkpoints, distillation."""
