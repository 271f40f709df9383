"""Stages of augmentation: what they draw, what they compute, and the compiled passes that compute the same."""
